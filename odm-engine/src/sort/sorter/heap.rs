//! A heap in a slice, its greatest item first.
//!
//! The standard library has one, too. This one moves items exactly as the heap of the C++ library that
//! MongoDB is built with, because which of several equal documents a limited sort returns, and in which
//! order, follows from those moves.

use std::cmp::Ordering;

/// Makes a heap of the items.
pub(super) fn make<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for parent in (0..items.len() / 2).rev() {
        sink(items, parent, compare);
    }
}

/// Puts `item` in the place of the greatest one.
pub(super) fn replace_greatest<T>(items: &mut [T], item: T, compare: &impl Fn(&T, &T) -> Ordering) {
    move_greatest_to_end(items, compare);
    let Some(last) = items.last_mut() else {
        return;
    };
    *last = item;
    rise(items, items.len() - 1, 0, compare);
}

/// Makes an ascending list of a heap.
pub(super) fn sort<T>(mut items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    while let [_, _, ..] = items {
        move_greatest_to_end(items, compare);
        let (rest, _) = items.split_at_mut(items.len() - 1);
        items = rest;
    }
}

/// Swaps the greatest item with the last one, and makes a heap of those before it.
fn move_greatest_to_end<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    let Some(last) = items.len().checked_sub(1) else {
        return;
    };
    items.swap(0, last);
    if let Some(rest) = items.get_mut(..last) {
        sink(rest, 0, compare);
    }
}

/// Moves an item to the bottom along the greater children, then up again to where it belongs.
fn sink<T>(items: &mut [T], from: usize, compare: &impl Fn(&T, &T) -> Ordering) {
    let mut at = from;
    loop {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        let child = match (items.get(left), items.get(right)) {
            (Some(of_left), Some(of_right)) if compare(of_right, of_left).is_lt() => left,
            (Some(_), Some(_)) => right,
            (Some(_), None) => left,
            _ => break,
        };
        items.swap(at, child);
        at = child;
    }
    rise(items, at, from, compare);
}

/// Moves an item up, not above `top`, until its parent is no smaller.
fn rise<T>(items: &mut [T], from: usize, top: usize, compare: &impl Fn(&T, &T) -> Ordering) {
    let mut at = from;
    while at > top {
        let parent = (at - 1) / 2;
        let is_smaller = |(parent, item)| compare(parent, item).is_lt();
        if !items.get(parent).zip(items.get(at)).is_some_and(is_smaller) {
            break;
        }
        items.swap(parent, at);
        at = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_smallest_items_are_left_in_order(items in prop::collection::vec(0..20_u32, 1..60), limit in 1..60_usize) {
            let (first, rest) = items.split_at(limit.min(items.len()));
            let mut kept = first.to_vec();
            make(&mut kept, &u32::cmp);
            for item in rest {
                if item < &kept[0] {
                    replace_greatest(&mut kept, *item, &u32::cmp);
                }
            }
            sort(&mut kept, &u32::cmp);
            let mut expected = items.clone();
            expected.sort_unstable();
            expected.truncate(limit);
            prop_assert_eq!(kept, expected);
        }
    }
}
