//! All that is remembered, lent to one at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::World;

/// Where it is while nobody has it.
#[derive(Debug)]
pub(super) struct Home {
    place: Mutex<Place>,
    returned: Condvar,
}

#[derive(Debug)]
struct Place {
    world: Option<Box<World>>,
    /// Threads that wait for it.
    waiting: u32,
}

impl Home {
    /// With a world of which nothing is known.
    pub(super) fn new() -> Arc<Self> {
        let place = Place { world: Some(Box::default()), waiting: 0 };
        Arc::new(Self { place: Mutex::new(place), returned: Condvar::new() })
    }

    /// Waits until nobody has it, and takes it. Unlike what a mutex guards, it can be kept in a block's
    /// state while its warps have their turns, so that their events need not ask for it one by one.
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

/// What has been lent; it goes home when this is dropped.
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
        // To tell nobody takes a system call.
        if place.waiting > 0 {
            self.home.returned.notify_one();
        }
    }
}
