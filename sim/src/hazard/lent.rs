//! The recorded state of all checks, lent to one user at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::World;

#[derive(Debug)]
pub(super) struct Home {
    place: Mutex<Place>,
    returned: Condvar,
}

#[derive(Debug)]
struct Place {
    world: Option<Box<World>>,
    waiting: u32,
}

impl Home {
    pub(super) fn new() -> Arc<Self> {
        let place = Place { world: Some(Box::default()), waiting: 0 };
        Arc::new(Self { place: Mutex::new(place), returned: Condvar::new() })
    }

    /// Waits until the state is available, and takes it. Unlike a mutex guard, [`Lent`] can be stored in
    /// a block's state from `round_begin` to `round_end`, so that single events need no lock.
    pub(super) fn take(home: &Arc<Self>) -> Lent {
        let mut place = home.lock();
        while place.world.is_none() {
            place.waiting += 1;
            place = home.returned.wait(place).unwrap_or_else(PoisonError::into_inner);
            place.waiting -= 1;
        }
        Lent { world: place.world.take(), home: Arc::clone(home) }
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Lent {
    world: Option<Box<World>>,
    home: Arc<Home>,
}

impl Deref for Lent {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_ref().expect("it is here until this is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut World {
        self.world.as_mut().expect("it is here until this is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut place = self.home.lock();
        place.world = self.world.take();
        // Notifying takes a system call, even without a waiting thread.
        if place.waiting > 0 {
            self.home.returned.notify_one();
        }
    }
}
