//! The list of a page's sections: names that links lead to, and the links.

use crate::svg::escape;

/// The sections of a page, in order, and where the list of them goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// Id and heading of each.
    sections: Vec<(String, String)>,
    /// Bytes of the page before the list; `None`: the page has no list.
    place: Option<usize>,
}

impl Contents {
    /// Puts a section on the list. The result is its id, which no other section has.
    pub(crate) fn add(&mut self, heading: &str) -> String {
        let plain = plain(heading);
        let numbered = (2..).map(|nth| format!("{plain}-{nth}"));
        let is_free = |id: &String| self.sections.iter().all(|(taken, _)| taken != id);
        let id = std::iter::once(plain.clone()).chain(numbered).find(is_free).expect("numbers do not end");
        self.sections.push((id.clone(), heading.to_owned()));
        id
    }

    /// The list goes behind the first `place` bytes of the page.
    pub(crate) fn put_at(&mut self, place: usize) {
        self.place = Some(place);
    }

    /// The page with its list.
    pub(crate) fn inserted(&self, body: &str) -> String {
        let link = |(id, heading): &(String, String)| format!("<a href=\"#{id}\">{}</a>\n", escape(heading));
        let links: String = self.sections.iter().map(link).collect();
        match self.place.and_then(|place| body.split_at_checked(place)) {
            Some((before, behind)) if !links.is_empty() => {
                format!("{before}<nav class=\"contents\" aria-label=\"contents\">\n{links}</nav>\n{behind}")
            }
            _ => body.to_owned(),
        }
    }
}

/// Letters and digits of a heading, small, with a hyphen for all between them.
fn plain(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    if plain.is_empty() { "section".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_a_name_of_its_own() {
        let mut contents = Contents::default();
        let headings = ["Runtime: Linux 7.2", "Runtime, Linux 7.2", "??", "\u{4e2d}", "Runtime: Linux 7.2"];
        let ids = headings.map(|heading| contents.add(heading));
        assert_eq!(ids, ["runtime-linux-7-2", "runtime-linux-7-2-2", "section", "section-2", "runtime-linux-7-2-3"]);
    }

    #[test]
    fn a_page_without_a_place_for_it_has_no_list() {
        let mut contents = Contents::default();
        contents.add("one");
        assert_eq!(contents.inserted("<p>"), "<p>");
        contents.put_at(0);
        assert!(contents.inserted("<p>").ends_with("<a href=\"#one\">one</a>\n</nav>\n<p>"));
    }
}
