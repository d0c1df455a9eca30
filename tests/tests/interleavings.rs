//! Plans under a scheduler that picks the order of every operation.

use odm_tests::schedule::{
    Adopts, Anew, BriefInsert, Case, Clears, Copies, Counts, FewCopies, FewCounts, FewFollows,
    FewLines, FewListings, FewMembers, FewOverflows, FewTwins, Follows, Gathers, LateDeletion,
    LateInsert, LateInserts, LateReading, Lines, Listings, Looks, Members, OrderedOverflows,
    Overflows, Reborn, Returns, Sabotage, Schedule, Sets, Spills, Twins,
};

/// Returns the number of schedules of each kind: `ODM_SCHEDULES`, or 150.
fn schedules() -> u64 {
    let said = std::env::var("ODM_SCHEDULES").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(150)
}

/// The first of the schedules at whose end something is wrong.
fn first_wrong(
    case: &dyn Case,
    count: u64,
    transactions: bool,
    sabotage: Option<Sabotage>,
) -> Option<String> {
    (0..count).find_map(|seed| {
        let schedule = Schedule {
            seed,
            transactions,
            sabotage,
        };
        schedule.run(case).err()
    })
}

#[test]
fn copies_converge() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Copies, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Every order in which processes are interrupted once at most, all in all: `ODM_SWITCHES=2` for more.
#[test]
fn copies_converge_in_every_order() {
    every_order(&FewCopies, 1);
}

/// Every order in which processes are interrupted `switches` times at most.
fn every_order(case: &dyn Case, switches: usize) {
    let said = std::env::var("ODM_SWITCHES").ok();
    let switches = said.and_then(|said| said.parse().ok()).unwrap_or(switches);
    for transactions in [false, true] {
        let schedule = Schedule {
            seed: 0,
            transactions,
            sabotage: None,
        };
        let orders = schedule.run_all(case, switches);
        let orders = orders.unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{orders} orders, transactions: {transactions}");
        assert!(orders > 20);
    }
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_copies_is_needed_in_some_order() {
    for sabotage in [Sabotage::Revision, Sabotage::Token, Sabotage::Verification] {
        let schedule = Schedule {
            seed: 0,
            transactions: false,
            sabotage: Some(sabotage),
        };
        let wrong = schedule.run_all(&FewCopies, 2).err();
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}

#[test]
fn copies_of_what_is_deleted_become_null() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Clears, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Whoever comes late with a deletion leaves what is there under the same `_id` by then alone.
#[test]
fn a_late_deletion_is_of_what_was_there() {
    late(&Anew);
}

/// Every order in which the first process pauses once, until the others have come to their end.
fn late(case: &dyn Case) {
    for transactions in [false, true] {
        let schedule = Schedule {
            seed: 0,
            transactions,
            sabotage: None,
        };
        let orders = schedule.run_late(case);
        let orders = orders.unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{orders} orders, transactions: {transactions}");
        assert!(orders > 5);
    }
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_what_becomes_null_is_needed() {
    for sabotage in [
        Sabotage::Revision,
        Sabotage::Token,
        Sabotage::Verification,
        Sabotage::FanOut,
    ] {
        let wrong = first_wrong(&Clears, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_copies_is_needed() {
    for sabotage in [
        Sabotage::Revision,
        Sabotage::Token,
        Sabotage::Verification,
        Sabotage::FanOut,
    ] {
        let wrong = first_wrong(&Copies, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}

#[test]
fn counts_are_exact() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Counts, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// The first of 100,000 schedules in which a new owner lost what was counted at the one before it: somebody had read it beside a member,
/// which was gone when the owner looked for members and found none.
#[test]
fn new_owners_lose_nothing_to_who_counted_at_the_ones_before() {
    let schedule = Schedule {
        seed: 60_920,
        transactions: false,
        sabotage: None,
    };
    let wrong = schedule.run(&Counts).err();
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}

/// Every order in which they are interrupted twice at most, all in all.
#[test]
fn counts_are_exact_in_every_order() {
    every_order(&FewCounts, 2);
    every_order(&Returns, 2);
}

/// What is noted of a document that is deleted meanwhile is not of the next one under its `_id`.
#[test]
fn counts_are_of_what_is_there_now() {
    every_order(&Reborn, 2);
}

/// What is counted where it is copied from.
#[test]
fn copies_and_counts_of_one_document_are_right() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Lines, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    every_order(&FewLines, 2);
    let schedule = Schedule {
        seed: 0,
        transactions: false,
        sabotage: Some(Sabotage::Source),
    };
    let wrong = schedule.run_all(&FewLines, 2).err();
    assert!(wrong.is_some(), "nobody misses that the source has changed");
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_counts_is_needed() {
    for sabotage in [
        Sabotage::Fence,
        Sabotage::Notes,
        Sabotage::Counting,
        Sabotage::Remembering,
        Sabotage::NewOwners,
    ] {
        let wrong = first_wrong(&Counts, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}

#[test]
fn both_sides_of_links_agree() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Listings, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Every order in which they are interrupted once at most, all in all: `ODM_SWITCHES=2` for more.
#[test]
fn both_sides_of_links_agree_in_every_order() {
    every_order(&FewListings, 1);
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_links_is_needed_in_some_order() {
    for sabotage in [Sabotage::SideFence, Sabotage::Wanted] {
        let schedule = Schedule {
            seed: 0,
            transactions: false,
            sabotage: Some(sabotage),
        };
        let wrong = schedule.run_all(&FewListings, 2).err();
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}

/// Nobody refers to who is gone, wherever the references are.
#[test]
fn references_that_overflow_lead_somewhere() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Members, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    every_order(&FewMembers, 1);
    late(&FewMembers);
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_references_that_overflow_is_needed() {
    let schedule = Schedule {
        seed: 0,
        transactions: false,
        sabotage: Some(Sabotage::Wanted),
    };
    let wrong = schedule.run_all(&FewMembers, 2).err();
    assert!(wrong.is_some(), "nobody misses what is wanted");
}

/// Whom one refers to by an array that overflows lists exactly those who do.
#[test]
fn both_sides_of_references_that_overflow_agree() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Follows, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    every_order(&FewFollows, 1);
    late(&FewFollows);
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_both_sides_that_overflow_is_needed() {
    for sabotage in [Sabotage::SideFence, Sabotage::Wanted, Sabotage::Unwanted] {
        let schedule = Schedule {
            seed: 0,
            transactions: false,
            sabotage: Some(sabotage),
        };
        let wrong = schedule.run_all(&FewFollows, 2).err();
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}

#[test]
fn arrays_lose_nothing() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Overflows, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// What one update does to two arrays happens to both.
#[test]
fn two_arrays_have_the_same() {
    for transactions in [false, true] {
        let wrong = first_wrong(&Twins, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    every_order(&FewTwins, 1);
}

/// What is added to a set is there once, and with what the set had of it, or not at all.
#[test]
fn sets_have_each_element_once() {
    every_order(&Sets, 1);
}

/// Whoever finishes what another has begun leaves nothing of it, in a transaction too.
#[test]
fn nothing_is_left_of_what_two_let_overflow() {
    every_order(&Spills, 2);
}

/// What goes outside of a document while it is deleted does not stay there.
#[test]
fn a_late_deletion_leaves_no_elements() {
    late(&LateDeletion);
}

#[test]
fn a_late_reader_finds_what_is_there_all_the_time() {
    late(&LateReading);
    every_order(&Looks, 1);
}

/// Every order in which they are interrupted once at most, all in all: `ODM_SWITCHES=2` for more.
#[test]
fn arrays_lose_nothing_in_every_order() {
    for has_extras in [false, true] {
        every_order(&FewOverflows { has_extras }, 1);
    }
}

/// What was there before is moved to the extras while others push and pull.
#[test]
fn arrays_of_before_lose_nothing_while_they_overflow() {
    every_order(&Adopts, 2);
}

/// And goes back to its document.
#[test]
fn arrays_lose_nothing_while_they_go_back() {
    every_order(&Gathers, 2);
}

/// An insert that is acknowledged is there, however long it took: as with transactions it is one.
#[test]
fn a_late_insert_of_an_array_is_there_or_an_error() {
    let schedule = Schedule {
        seed: 0,
        transactions: false,
        sabotage: None,
    };
    let several = (&LateInserts as &dyn Case, 2);
    for (case, switches) in [(&LateInsert as &dyn Case, 3), several] {
        let orders = schedule.run_all(case, switches);
        let orders = orders.unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{orders} orders");
    }
}

/// An insert is acknowledged whose document another deletes at once: nobody took it for left behind.
#[test]
fn an_insert_of_an_array_is_acknowledged_though_it_is_deleted_at_once() {
    for transactions in [false, true] {
        let wrong = first_wrong(&BriefInsert, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    every_order(&BriefInsert, 2);
}

#[test]
fn ordered_arrays_lose_nothing_and_stay_in_order() {
    for transactions in [false, true] {
        let wrong = first_wrong(&OrderedOverflows, schedules(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Without a guard something is wrong in one of them.
#[test]
fn each_guard_of_arrays_is_needed() {
    for sabotage in [
        Sabotage::WorkKey,
        Sabotage::DoneOnce,
        Sabotage::Promise,
        Sabotage::AtRest,
        Sabotage::Collector,
        Sabotage::Publishing,
    ] {
        let wrong = first_wrong(&Overflows, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "nobody misses {sabotage:?}");
    }
}
