//! Vector clocks of warps, barriers and memory locations.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Foreign = BTreeMap<u32, Arc<[u32]>>;

/// Vector clock of a warp, a barrier or a memory location: the last known clocks of its own cluster's
/// warps, and of the clusters from which it has acquired.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    pub(super) own: Vec<u32>,
    pub(super) foreign: Option<Arc<Foreign>>,
}

impl Clock {
    pub(super) fn join(&mut self, other: &Self) {
        join_rows(&mut self.own, &other.own);
        if let Some(foreign) = &other.foreign {
            self.join_foreign(foreign);
        }
    }

    /// Adopts the clock of an opened barrier at which warp `agent` arrived. Keeps the warp's own entry,
    /// which has advanced since the arrival.
    pub(super) fn resume(&mut self, open: &Self, agent: u32) {
        let now = self.own[agent as usize];
        self.own.clone_from(&open.own);
        self.own[agent as usize] = now;
        if let Some(foreign) = &open.foreign {
            self.join_foreign(foreign);
        }
    }

    pub(super) fn forget(&mut self) {
        self.own.clear();
        self.foreign = None;
    }

    fn join_foreign(&mut self, other: &Arc<Foreign>) {
        match &mut self.foreign {
            None => self.foreign = Some(Arc::clone(other)),
            Some(known) if Arc::ptr_eq(known, other) => {}
            Some(known) => {
                let known = Arc::make_mut(known);
                other.iter().for_each(|(&team, clocks)| learn(known, team, clocks));
            }
        }
    }

    /// Acquires the clocks published at a memory location, as a warp of cluster `team`.
    pub(super) fn acquire(&mut self, team: u32, told: &Arc<Foreign>) {
        if let Some(clocks) = told.get(&team) {
            join_rows(&mut self.own, clocks);
        }
        self.join_foreign(told);
    }

    /// Publishes the clock at a memory location, as a warp of cluster `team`.
    pub(super) fn release(&self, team: u32, told: &mut Arc<Foreign>) {
        let told = Arc::make_mut(told);
        if let Some(foreign) = &self.foreign {
            for (&team, clocks) in foreign.iter() {
                learn(told, team, clocks);
            }
        }
        learn(told, team, &self.own.as_slice().into());
    }

    /// Returns the last known clock of a warp; `team` is `None` for the clock's own cluster.
    pub(super) fn of(&self, team: Option<u32>, agent: u32) -> u32 {
        let row = match team {
            None => Some(self.own.as_slice()),
            Some(team) => {
                self.foreign.as_ref().and_then(|known| known.get(&team)).map(|row| row.as_ref())
            }
        };
        row.and_then(|row| row.get(agent as usize)).copied().unwrap_or(0)
    }
}

fn learn(known: &mut Foreign, team: u32, clocks: &Arc<[u32]>) {
    match known.get_mut(&team) {
        None => {
            known.insert(team, Arc::clone(clocks));
        }
        Some(row) if Arc::ptr_eq(row, clocks) => {}
        Some(row) if row.iter().zip(clocks.iter()).all(|(a, b)| a >= b) => {}
        Some(row) => *row = row.iter().zip(clocks.iter()).map(|(&a, &b)| a.max(b)).collect(),
    }
}

fn join_rows(row: &mut Vec<u32>, other: &[u32]) {
    if row.len() < other.len() {
        row.resize(other.len(), 0);
    }
    for (mine, &theirs) in row.iter_mut().zip(other) {
        *mine = theirs.max(*mine);
    }
}
