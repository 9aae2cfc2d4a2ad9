//! The inputs of a group and a world, and the operations that reduce each.

#[cfg(feature = "world")]
use super::{Distributed, World};
use super::{Group, Sharded};
use crate::{
    ByKey, Element, Filtered, Key, Located, Plain, Result, Segments, Within,
    op::{
        Operation, Operations, PairOperation, Reproducible, RowsOperation, Sum, TopK, kind,
        sealed::Sealed,
    },
};

/// An input of [`Group::reduce`] or `World::reduce`: elements on all members.
///
/// | input | operations | result |
/// |---|---|---|
/// | `&Sharded`, `&Distributed` | [`Operation`], [tuples](Operations), [`TopK`] | one, a tuple, k |
/// | a pair of these | [`PairOperation`] | one |
/// | [`Sharded::filter`], `Distributed::filter` | [`Sum`], `Sum.reproducible()` | one [`Within`] |
/// | [`Sharded::rows`] | [`RowsOperation`], [`TopK`] | one or k for each row |
/// | [`Sharded::axis`] | [`RowsOperation`] | one for each kept position |
/// | `&[Segments]`, those of each device | [`RowsOperation`] | one for each segment |
/// | [`Sharded::by_key`] | [`RowsOperation`] | a [`ByKey`] on each device |
///
/// The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{O}` does not reduce `{Self}` of a group or world",
    note = "operations of one result reduce `&sharded`, `sharded.rows(len)`, `sharded.axis(shape, axis)` and \
            `sharded.by_key(&keys)`"
)]
pub trait GroupInput<O, G = Group>: sealed::GroupInput + Sized {
    /// The result on the host.
    type Output;

    #[doc(hidden)]
    fn reduce(self, op: O, group: &G) -> Result<Self::Output>;
}

mod sealed {
    pub trait GroupInput {}
}

impl<T: Plain> sealed::GroupInput for ShardedRows<'_, T> {}
impl<T: Plain> sealed::GroupInput for ShardedAxis<'_, T> {}
impl<T> sealed::GroupInput for &[Segments<T>] {}
impl<K: Plain, T: Plain> sealed::GroupInput for ShardedKeys<'_, K, T> {}

/// Rows of the elements of a [`Group`], each on one device, from [`Sharded::rows`].
#[derive(Debug)]
pub struct ShardedRows<'a, T: Plain> {
    values: &'a Sharded<T>,
    len: usize,
}

/// An axis of arrays, each on one device of a [`Group`], from [`Sharded::axis`].
#[derive(Debug)]
pub struct ShardedAxis<'a, T: Plain> {
    values: &'a Sharded<T>,
    shape: &'a [usize],
    axis: usize,
}

/// Elements of a [`Group`] with a key for each, from [`Sharded::by_key`].
#[derive(Debug)]
pub struct ShardedKeys<'a, K: Plain, T: Plain> {
    keys: &'a Sharded<K>,
    values: &'a Sharded<T>,
}

impl<T: Plain> Sharded<T> {
    /// Returns the elements with a key for each, as [`Buffer::by_key`](crate::Buffer::by_key) does. Each
    /// device must have whole runs of equal neighbouring keys. The results of its runs stay on it.
    ///
    /// [`Group::reduce`] fails with [`Error::Runs`](crate::Error::Runs) for a run that continues on the
    /// next device, and if a device has different numbers of keys and elements.
    pub fn by_key<'a, K: Key>(&'a self, keys: &'a Sharded<K>) -> ShardedKeys<'a, K, T> {
        ShardedKeys { keys, values: self }
    }

    /// Returns the elements as rows of `len` elements, each on one device.
    ///
    /// [`Group::reduce`] fails with [`Error::Rows`](crate::Error::Rows) if `len` is 0 or does not divide
    /// the number of elements of a device.
    pub fn rows(&self, len: usize) -> ShardedRows<'_, T> {
        ShardedRows { values: self, len }
    }

    /// Returns the elements as arrays of `shape`, each on one device, to be reduced along `axis`. The
    /// results are those of a single array that stacks these arrays along an additional first axis.
    ///
    /// [`Group::reduce`] fails with [`Error::Axis`](crate::Error::Axis) if the shape does not divide the
    /// number of elements of a device, or does not have the axis.
    pub fn axis<'a>(&'a self, shape: &'a [usize], axis: usize) -> ShardedAxis<'a, T> {
        ShardedAxis { values: self, shape, axis }
    }
}

/// Reduction of the elements `V` of a group or world `G` by operations of one kind.
#[diagnostic::on_unimplemented(message = "`{O}` does not reduce `&{V}`")]
pub trait ReduceShared<O, G, V> {
    type Output;
    fn reduce(op: O, group: &G, values: &V) -> Result<Self::Output>;
}

macro_rules! shared {
    ($G:ident, $V:ident) => {
        impl<T> sealed::GroupInput for &$V<T> {}
        impl<T> sealed::GroupInput for (&$V<T>, &$V<T>) {}
        impl<T> sealed::GroupInput for Filtered<'_, T, $V<T>> {}

        impl<T: Plain, O: Operation<T>> ReduceShared<O, $G, $V<T>> for kind::Single {
            type Output = O::Output;

            fn reduce(op: O, group: &$G, values: &$V<T>) -> Result<O::Output> {
                group.reduce_one(op, values)
            }
        }

        impl<T: Plain, O: Operations<T>> ReduceShared<O, $G, $V<T>> for kind::Together {
            type Output = O::Output;

            fn reduce(ops: O, group: &$G, values: &$V<T>) -> Result<O::Output> {
                group.reduce_many(ops, values)
            }
        }

        impl<T: Element, O: TopK> ReduceShared<O, $G, $V<T>> for kind::Top {
            type Output = Vec<Located<T>>;

            fn reduce(op: O, group: &$G, values: &$V<T>) -> Result<Vec<Located<T>>> {
                group.top_k(op, values)
            }
        }

        impl<T: Plain, O: Sealed<Kind: ReduceShared<O, $G, $V<T>>>> GroupInput<O, $G> for &$V<T> {
            type Output = <O::Kind as ReduceShared<O, $G, $V<T>>>::Output;

            fn reduce(self, op: O, group: &$G) -> Result<Self::Output> {
                O::Kind::reduce(op, group, self)
            }
        }

        impl<T: Element, O: PairOperation> GroupInput<O, $G> for (&$V<T>, &$V<T>) {
            type Output = T::Sum;

            fn reduce(self, op: O, group: &$G) -> Result<T::Sum> {
                group.reduce_pair(op, self.0, self.1)
            }
        }

        impl<T: Element> GroupInput<Sum, $G> for Filtered<'_, T, $V<T>> {
            type Output = Within<T::Sum>;

            fn reduce(self, _: Sum, group: &$G) -> Result<Self::Output> {
                group.reduce_within(self.bounds, self.values)
            }
        }

        impl<T: Element> GroupInput<Reproducible<Sum>, $G> for Filtered<'_, T, $V<T>> {
            type Output = Within<T::Sum>;

            fn reduce(self, _: Reproducible<Sum>, group: &$G) -> Result<Self::Output> {
                group.reduce_within(Reproducible(self.bounds), self.values)
            }
        }

        impl<T: Plain> $V<T> {
            /// Returns the elements in an interval, as [`Buffer::filter`](crate::Buffer::filter) does.
            pub fn filter(&self, range: impl std::ops::RangeBounds<T>) -> Filtered<'_, T, Self> {
                Filtered::new(self, range)
            }
        }
    };
}

shared!(Group, Sharded);
#[cfg(feature = "world")]
shared!(World, Distributed);

#[diagnostic::on_unimplemented(message = "`{O}` does not reduce rows of `{T}`")]
pub trait ReduceShardedRows<O, T: Plain> {
    type Output;
    fn reduce(op: O, group: &Group, rows: ShardedRows<'_, T>) -> Result<Self::Output>;
}

impl<T: Plain, O: RowsOperation<T>> ReduceShardedRows<O, T> for kind::Single {
    type Output = Vec<O::Left>;

    fn reduce(op: O, group: &Group, rows: ShardedRows<'_, T>) -> Result<Vec<O::Left>> {
        group.reduce_rows(op, rows.values, rows.len)
    }
}

impl<T: Element, O: TopK> ReduceShardedRows<O, T> for kind::Top {
    type Output = Vec<Located<T>>;

    fn reduce(op: O, group: &Group, rows: ShardedRows<'_, T>) -> Result<Vec<Located<T>>> {
        group.top_k_rows(op, rows.values, rows.len)
    }
}

impl<T: Plain, O: Sealed<Kind: ReduceShardedRows<O, T>>> GroupInput<O> for ShardedRows<'_, T> {
    type Output = <O::Kind as ReduceShardedRows<O, T>>::Output;

    fn reduce(self, op: O, group: &Group) -> Result<Self::Output> {
        O::Kind::reduce(op, group, self)
    }
}

impl<T: Plain, O: RowsOperation<T>> GroupInput<O> for ShardedAxis<'_, T> {
    type Output = Vec<O::Left>;

    fn reduce(self, op: O, group: &Group) -> Result<Vec<O::Left>> {
        group.reduce_axis(op, self.values, self.shape, self.axis)
    }
}

impl<K: Key, T: Plain, O: RowsOperation<T>> GroupInput<O> for ShardedKeys<'_, K, T> {
    type Output = Vec<ByKey<K, O::Left>>;

    fn reduce(self, op: O, group: &Group) -> Result<Self::Output> {
        group.reduce_by_key(op, self.keys, self.values)
    }
}

impl<T: Element, O: RowsOperation<T>> GroupInput<O> for &[Segments<T>] {
    type Output = Vec<O::Left>;

    fn reduce(self, op: O, group: &Group) -> Result<Vec<O::Left>> {
        group.reduce_segments(op, self)
    }
}

impl Group {
    /// Reduces an [input](GroupInput) of all devices by an [operation](crate::op), or by a tuple of
    /// operations, and waits for the result. Each device reads its own elements; the devices exchange
    /// one partial result each.
    ///
    /// On each device, the operations of a tuple take a launch each, unless they share a kernel. Results
    /// of pairs and filtered elements are added in the order of the devices; with [`Reproducible`] they
    /// have the bits of one device with all elements.
    ///
    /// # Errors
    /// - [`Error::Group`](crate::Error::Group) for elements of another group, and unless there are
    ///   segments for each device;
    /// - [`Error::TooManyElements`](crate::Error::TooManyElements) for more than 2^35 on a device or
    ///   2^48 in all; for [`Reproducible`] sums, for more than 2^35 in all;
    /// - [`Error::Rows`](crate::Error::Rows), [`Error::Axis`](crate::Error::Axis) or
    ///   [`Error::Pairs`](crate::Error::Pairs) if a device does not have whole rows, arrays or pairs;
    /// - the errors of [`Reducer::reduce`](crate::Reducer::reduce): no result is written then, and the
    ///   group can still be used;
    /// - [`Error::OtherDevice`](crate::Error::OtherDevice) for a program's own operation: use
    ///   [`reduce_by`](Self::reduce_by).
    pub fn reduce<O, I: GroupInput<O>>(&self, op: O, input: I) -> Result<I::Output> {
        input.reduce(op, self)
    }

    fn reduce_one<T: Plain, O: Operation<T>>(&self, op: O, values: &Sharded<T>) -> Result<O::Output> {
        self.reduce_by(|_| op, values)
    }
}

#[cfg(feature = "world")]
impl World {
    /// Reduces an [input](GroupInput) of all ranks by an [operation](crate::op), or by a tuple of
    /// operations, and returns the same result on every rank. Collective.
    ///
    /// The ranks exchange partial results once for each launch of a tuple. Results of pairs and filtered
    /// elements are added in the order of the ranks; with [`Reproducible`] they have the bits of one
    /// rank with all elements.
    ///
    /// # Errors
    /// [`Error::World`](crate::Error::World) for elements of another world, if another rank fails, and
    /// if ranks reduce by different operations;
    /// [`Error::TooManyElements`](crate::Error::TooManyElements) as for a [`Group`]; the errors of
    /// [`Reducer::reduce`](crate::Reducer::reduce); [`Error::Lost`](crate::Error::Lost).
    pub fn reduce<O, I: GroupInput<O, Self>>(&self, op: O, input: I) -> Result<I::Output> {
        input.reduce(op, self)
    }
}
