//! A max-heap in a slice: the greatest item is first.
//!
//! The standard library's heap cannot be used. Among equal documents, the result of a limited sort
//! depends on the moves of the heap, so this heap copies the moves of MongoDB's C++ library.

use std::cmp::Ordering;

/// Arranges the items as a heap.
pub(super) fn make_heap<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for parent in (0..items.len() / 2).rev() {
        sink_item(items, parent, compare);
    }
}

/// Replaces the greatest item with `item`.
pub(super) fn replace_greatest<T>(items: &mut [T], item: T, compare: &impl Fn(&T, &T) -> Ordering) {
    move_greatest_to_end(items, compare);
    let Some(last) = items.last_mut() else {
        return;
    };
    *last = item;
    rise_item(items, items.len() - 1, 0, compare);
}

/// Sorts a heap in ascending order.
pub(super) fn sort_heap<T>(mut items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    while let [_, _, ..] = items {
        move_greatest_to_end(items, compare);
        let (rest, _) = items.split_at_mut(items.len() - 1);
        items = rest;
    }
}

/// Swaps the greatest item with the last item, and restores the heap of the items before.
fn move_greatest_to_end<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    let Some(last) = items.len().checked_sub(1) else {
        return;
    };
    items.swap(0, last);
    if let Some(rest) = items.get_mut(..last) {
        sink_item(rest, 0, compare);
    }
}

/// Moves an item down along the greater children, then up again to its place.
fn sink_item<T>(items: &mut [T], from: usize, compare: &impl Fn(&T, &T) -> Ordering) {
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
    rise_item(items, at, from, compare);
}

/// Moves an item up, but not above `top`, until its parent is not smaller.
fn rise_item<T>(items: &mut [T], from: usize, top: usize, compare: &impl Fn(&T, &T) -> Ordering) {
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
            make_heap(&mut kept, &u32::cmp);
            for item in rest {
                if item < &kept[0] {
                    replace_greatest(&mut kept, *item, &u32::cmp);
                }
            }
            sort_heap(&mut kept, &u32::cmp);
            let mut expected = items.clone();
            expected.sort_unstable();
            expected.truncate(limit);
            prop_assert_eq!(kept, expected);
        }
    }
}
