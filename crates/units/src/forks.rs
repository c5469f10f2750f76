//! Shared data of streams that are all forked.

use std::any::Any;
use std::sync::Arc;

/// Copies of data shared by the streams of a machine: forks of streams that shared data share one copy of these data.
#[derive(Default)]
pub struct Forks {
    /// Originals, which must stay alive, and their copies.
    copies: Vec<(Arc<dyn Any + Send + Sync>, Arc<dyn Any + Send + Sync>)>,
}

impl Forks {
    /// The copy of `original`, made when the first stream asks for it.
    pub fn copy_of<T: Any + Send + Sync>(&mut self, original: &Arc<T>, copy: impl FnOnce(&T) -> T) -> Arc<T> {
        let known = self.copies.iter().find(|(known, _)| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(original)));
        if let Some(known) = known.and_then(|(_, copy)| Arc::clone(copy).downcast().ok()) {
            return known;
        }
        let made = Arc::new(copy(original));
        self.copies.push((
            Arc::clone(original) as Arc<dyn Any + Send + Sync>,
            Arc::clone(&made) as Arc<dyn Any + Send + Sync>,
        ));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn what_was_shared_is_shared_by_the_forks_and_not_with_the_originals() {
        let shared = [1, 2].map(|value| Arc::new(Mutex::new(value)));
        let mut forks = Forks::default();
        let mut copy_of =
            |index: usize| forks.copy_of(&shared[index], |state| Mutex::new(*state.lock().expect("nobody panicked")));
        let (first, second, other) = (copy_of(0), copy_of(0), copy_of(1));
        *first.lock().expect("nobody panicked") = 7;
        let value = |state: &Mutex<i32>| *state.lock().expect("nobody panicked");
        assert_eq!([&shared[0], &second, &other, &shared[1]].map(|state| value(state)), [1, 7, 2, 2]);
    }
}
