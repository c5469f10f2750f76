//! SPDX licence expressions: enough of them to answer "may we use this?".

/// Whether `expression` can be met with licences that `allowed` accepts. `A OR B` needs one, `A AND B` both; `A/B` is the
/// old way to write `A OR B`. A licence `WITH` an exception is asked for by its whole text.
///
/// # Errors
/// The first place where the expression is none.
pub(crate) fn is_met(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), next: 0, allowed };
    let met = parser.any()?;
    match parser.peek() {
        None => Ok(met),
        Some(word) => Err(format!("`{expression}`: `{word}` is not expected there")),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let here = self.peek() == Some(word);
        self.next += usize::from(here);
        here
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let met = self.any()?;
            return if self.take(")") { Ok(met) } else { Err("a parenthesis is not closed".into()) };
        }
        let name = match self.peek() {
            Some(word) if !matches!(word, ")" | "OR" | "AND" | "WITH") => word,
            other => return Err(format!("a licence is missing before `{}`", other.unwrap_or("the end"))),
        };
        self.next += 1;
        if !self.take("WITH") {
            return Ok((self.allowed)(name));
        }
        let exception = self.peek().ok_or("an exception is missing after WITH")?;
        self.next += 1;
        Ok((self.allowed)(&format!("{name} WITH {exception}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_or_not() {
        let table = [
            ("MIT", Ok(true)),
            ("GPL-3.0", Ok(false)),
            ("MIT OR GPL-3.0", Ok(true)),
            ("MIT/GPL-3.0", Ok(true)),
            ("MIT AND GPL-3.0", Ok(false)),
            ("GPL-3.0 OR MIT AND Zlib", Ok(true)), // AND binds tighter
            ("(GPL-3.0 OR MIT) AND Zlib", Ok(true)),
            ("(MIT OR Zlib) AND GPL-3.0", Ok(false)),
            ("Apache-2.0 WITH LLVM-exception", Ok(false)), // asked for as a whole
            ("", Err(())),
            ("MIT OR", Err(())),
            ("(MIT", Err(())),
            ("MIT Zlib", Err(())),
        ];
        for (expression, met) in table {
            let allowed = |name: &str| matches!(name, "MIT" | "Zlib");
            assert_eq!(is_met(expression, &allowed).map_err(|_| ()), met, "{expression}");
        }
    }
}
