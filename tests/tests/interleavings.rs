//! Tests of concurrent writes under a scheduler that picks the order of every operation.

use odm_tests::schedule::{
    Averages, BriefInsert, Case, ClearedCopies, ConcurrentSets, ConcurrentSpills, Copies,
    CopiesAndRollups, ExistingArraySpill, FewOverflowInverses, InlinesArray, JointInserts,
    LateDeletion, LateInsert, LateInserts, LateJointInsert, LateReading, LateReferenceInsert,
    LateSpill, ManyToManyOverflows, OrderedOverflows, OverflowDeleteRules, OverflowInverses,
    Overflows, ReinsertedAfterDelete, ReinsertedChild, ReturningParent, Rollups, Sabotage,
    Schedule, SearchesDuringFold, SmallAverages, SmallCopies, SmallCopiesAndRollups,
    SmallManyToManyOverflows, SmallOverflowDeleteRules, SmallOverflows, SmallRollups, SmallTrees,
    SmallTwoOverflowArrays, TimelyJointInserts, Trees, TwoOverflowArrays, WideTrees,
};

/// Returns the number of schedules of each kind: `ODM_SCHEDULES`, or 50.
fn schedules_per_test() -> u64 {
    let value = std::env::var("ODM_SCHEDULES").ok();
    value.and_then(|value| value.parse().ok()).unwrap_or(50)
}

/// Returns the message of the first schedule that fails.
fn first_failure(
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
        let wrong = first_failure(&Copies, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Runs every order with at most a single interruption in total; `ODM_SWITCHES=2` runs more orders.
#[test]
fn copies_converge_in_every_order() {
    run_every_order(&SmallCopies, 1);
}

/// Runs every order with at most `switches` interruptions in total. `ODM_SWITCHES` overrides the number.
fn run_every_order(case: &dyn Case, switches: usize) {
    let value = std::env::var("ODM_SWITCHES").ok();
    let switches = value
        .and_then(|value| value.parse().ok())
        .unwrap_or(switches);
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

/// Each guard is needed: some order fails without the guard.
#[test]
fn each_guard_of_copies_is_needed_in_some_order() {
    for sabotage in [
        Sabotage::SourceVersion,
        Sabotage::PendingToken,
        Sabotage::PendingRevalidation,
    ] {
        let schedule = Schedule {
            seed: 0,
            transactions: false,
            sabotage: Some(sabotage),
        };
        let wrong = schedule.run_all(&SmallCopies, 2).err();
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}

/// The ancestors of each document are the chain of its parents, and no document is its own ancestor.
#[test]
fn trees_converge() {
    for transactions in [false, true] {
        let wrong = first_failure(&Trees, schedules_per_test().div_ceil(2), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Of two moves that together make a circle, at most one happens, also if one process pauses during the move.
#[test]
fn two_moves_make_no_circle() {
    run_with_late_first_process(&SmallTrees);
    for transactions in [false, true] {
        let wrong = first_failure(&SmallTrees, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// The lock of the documents above is needed: some schedule makes a circle without the lock.
#[test]
fn the_lock_of_a_move_is_needed() {
    let wrong = first_failure(&WideTrees, 2, true, None);
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    let wrong = first_failure(&WideTrees, 20, true, Some(Sabotage::ChainLock));
    assert!(wrong.is_some(), "no schedule makes a circle");
}

/// The announced parents are needed: some schedule makes a circle without them.
#[test]
fn the_announced_parents_of_a_move_are_needed() {
    let wrong = first_failure(&SmallTrees, 2_000, false, Some(Sabotage::IntentNew));
    assert!(wrong.is_some(), "no schedule makes a circle");
}

#[test]
fn copies_of_deleted_sources_become_null() {
    for transactions in [false, true] {
        let wrong = first_failure(&ClearedCopies, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// A delete that resumes late does not change a new document with the same `_id`.
#[test]
fn a_late_delete_spares_a_reinserted_document() {
    run_with_late_first_process(&ReinsertedAfterDelete);
}

/// Runs every order where the first process pauses once, until the remaining processes have ended.
fn run_with_late_first_process(case: &dyn Case) {
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

/// Each guard is needed: some schedule fails without the guard.
#[test]
fn each_guard_of_cleared_copies_is_needed() {
    for sabotage in [
        Sabotage::SourceVersion,
        Sabotage::PendingToken,
        Sabotage::PendingRevalidation,
        Sabotage::PendingFanOut,
    ] {
        let wrong = first_failure(&ClearedCopies, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}

/// Each guard is needed: some schedule fails without the guard.
#[test]
fn each_guard_of_copies_is_needed() {
    for sabotage in [
        Sabotage::SourceVersion,
        Sabotage::PendingToken,
        Sabotage::PendingRevalidation,
        Sabotage::PendingFanOut,
    ] {
        let wrong = first_failure(&Copies, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}

#[test]
fn rollups_are_exact() {
    for transactions in [false, true] {
        let wrong = first_failure(&Rollups, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// The first schedule of 100,000 that lost a contribution: a process had read the old parent together with a child. When the new
/// parent searched for children, the child was gone.
#[test]
fn reinserted_parents_lose_no_contributions() {
    let schedule = Schedule {
        seed: 60_920,
        transactions: false,
        sabotage: None,
    };
    let wrong = schedule.run(&Rollups).err();
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}

/// Runs every order with at most two interruptions in total.
#[test]
fn rollups_are_exact_in_every_order() {
    run_every_order(&SmallRollups, 2);
    run_every_order(&ReturningParent, 2);
}

/// A contribution of a deleted document does not count for the next document with the same `_id`.
#[test]
fn rollups_ignore_contributions_of_deleted_children() {
    run_every_order(&ReinsertedChild, 2);
}

/// Averages, minimums, maximums and a computed field of rollups, also with all orders of at most two interruptions.
#[test]
fn averages_and_extremes_are_exact() {
    for transactions in [false, true] {
        let wrong = first_failure(&Averages, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    run_every_order(&SmallAverages, 2);
}

/// Without the version guard, a late update of a parent leaves a wrong minimum.
#[test]
fn the_version_guard_of_extremes_is_needed() {
    let wrong = first_failure(&Averages, 5_000, false, Some(Sabotage::RollupVersion));
    assert!(wrong.is_some(), "no schedule fails without the guard");
}

/// The parent of the rollup is also the source of the copy.
#[test]
fn copies_and_rollups_of_one_source_are_exact() {
    for transactions in [false, true] {
        let wrong = first_failure(&CopiesAndRollups, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    run_every_order(&SmallCopiesAndRollups, 2);
    let schedule = Schedule {
        seed: 0,
        transactions: false,
        sabotage: Some(Sabotage::UnchangedSource),
    };
    let wrong = schedule.run_all(&SmallCopiesAndRollups, 2).err();
    assert!(
        wrong.is_some(),
        "no schedule fails without the check of the source version"
    );
}

/// Each guard is needed: some schedule fails without the guard.
#[test]
fn each_guard_of_rollups_is_needed() {
    for sabotage in [
        Sabotage::RollupVersion,
        Sabotage::AppliedContribution,
        Sabotage::PendingRollup,
        Sabotage::RollupToken,
        Sabotage::PendingRecompute,
    ] {
        let wrong = first_failure(&Rollups, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}

#[test]
fn references_and_inverses_agree() {
    for transactions in [false, true] {
        let wrong = first_failure(&OverflowInverses, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Runs every order with at most a single interruption in total; `ODM_SWITCHES=2` runs more orders.
#[test]
fn references_and_inverses_agree_in_every_order() {
    run_every_order(&FewOverflowInverses, 1);
}

/// Documents that share the steps of an insert are all stored, or refused as the answer says.
#[test]
fn joint_inserts_keep_references_and_inverses() {
    for transactions in [false, true] {
        for case in [&JointInserts as &dyn Case, &TimelyJointInserts] {
            let wrong = first_failure(case, schedules_per_test(), transactions, None);
            assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
        }
    }
}

#[test]
fn joint_inserts_keep_references_and_inverses_in_every_order() {
    run_every_order(&LateJointInsert, 1);
}

#[test]
fn a_late_joint_insert_is_stored_or_an_error() {
    run_with_late_first_process(&LateJointInsert);
}

/// Each guard is needed: some schedule fails without the guard.
#[test]
fn each_guard_of_joint_inserts_is_needed() {
    let sabotage = Some(Sabotage::InverseVersion);
    let wrong = first_failure(&JointInserts, 5_000, false, sabotage);
    assert!(
        wrong.is_some(),
        "no schedule fails without the version of the inverse"
    );
}

/// Each guard is needed: some order fails without the guard.
#[test]
fn each_guard_of_inverses_is_needed_in_some_order() {
    for sabotage in [Sabotage::InverseVersion, Sabotage::IntentNew] {
        let schedule = Schedule {
            seed: 0,
            transactions: false,
            sabotage: Some(sabotage),
        };
        let wrong = schedule.run_all(&FewOverflowInverses, 2).err();
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}

/// No reference points to a deleted document, whether the reference is resident or spilled.
#[test]
fn overflow_references_never_dangle() {
    for transactions in [false, true] {
        let wrong = first_failure(
            &OverflowDeleteRules,
            schedules_per_test(),
            transactions,
            None,
        );
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    run_every_order(&SmallOverflowDeleteRules, 1);
    run_with_late_first_process(&SmallOverflowDeleteRules);
}

/// Each guard is needed: some order fails without the guard.
#[test]
fn each_guard_of_overflow_references_is_needed() {
    let schedule = Schedule {
        seed: 0,
        transactions: false,
        sabotage: Some(Sabotage::IntentNew),
    };
    let wrong = schedule.run_all(&SmallOverflowDeleteRules, 2).err();
    assert!(
        wrong.is_some(),
        "no schedule fails without the new references of the intent record"
    );
}

/// An inverse lists exactly the referrers with the reference in an overflow array.
#[test]
fn overflow_references_and_inverses_agree() {
    for transactions in [false, true] {
        let wrong = first_failure(
            &ManyToManyOverflows,
            schedules_per_test(),
            transactions,
            None,
        );
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    run_every_order(&SmallManyToManyOverflows, 1);
    run_with_late_first_process(&SmallManyToManyOverflows);
}

/// Each guard is needed: some order fails without the guard.
#[test]
fn each_guard_of_overflow_inverses_is_needed() {
    for sabotage in [
        Sabotage::InverseVersion,
        Sabotage::IntentNew,
        Sabotage::IntentOld,
    ] {
        let schedule = Schedule {
            seed: 0,
            transactions: false,
            sabotage: Some(sabotage),
        };
        let wrong = schedule.run_all(&SmallManyToManyOverflows, 2).err();
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}

#[test]
fn overflow_arrays_lose_no_elements() {
    for transactions in [false, true] {
        let wrong = first_failure(&Overflows, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// An update of two arrays changes both arrays.
#[test]
fn updates_of_two_arrays_are_atomic() {
    for transactions in [false, true] {
        let wrong = first_failure(&TwoOverflowArrays, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    run_every_order(&SmallTwoOverflowArrays, 1);
}

/// Each element of a set exists once. An addition to a set adds all elements or no elements.
#[test]
fn sets_have_each_element_once() {
    run_every_order(&ConcurrentSets, 1);
}

/// A process that completes an abandoned spill leaves no pending work, in a transaction too.
#[test]
fn concurrent_spills_leave_no_pending_work() {
    run_every_order(&ConcurrentSpills, 2);
}

/// Elements that spill during a delete of the document do not stay in chunk documents.
#[test]
fn a_late_delete_leaves_no_chunks() {
    run_with_late_first_process(&LateDeletion);
}

#[test]
fn a_late_reader_misses_no_element() {
    run_with_late_first_process(&LateReading);
    run_every_order(&SearchesDuringFold, 1);
}

/// Runs every order with at most a single interruption in total; `ODM_SWITCHES=2` runs more orders.
#[test]
fn overflow_arrays_lose_no_elements_in_every_order() {
    for has_extras in [false, true] {
        run_every_order(&SmallOverflows { has_extras }, 1);
    }
}

/// Elements of an old, long array spill while concurrent writers push and pull.
#[test]
fn existing_arrays_lose_no_elements_during_a_spill() {
    run_every_order(&ExistingArraySpill, 2);
}

/// Elements fold back into the document while concurrent writers push and pull.
#[test]
fn arrays_lose_no_elements_during_a_fold() {
    run_every_order(&InlinesArray, 2);
}

/// An acknowledged insert exists, however long the insert took. With transactions, the insert is a single transaction.
#[test]
fn a_late_insert_is_stored_or_an_error() {
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

/// An acknowledged insert with a reference exists, although recovery can roll a slow insert back.
#[test]
fn a_late_insert_with_a_reference_is_stored_or_an_error() {
    run_every_order(&LateReferenceInsert, 2);
}

/// An insert is acknowledged although a concurrent delete removes the document immediately: no process treats the insert as
/// abandoned.
#[test]
fn an_immediately_deleted_insert_is_acknowledged() {
    for transactions in [false, true] {
        let wrong = first_failure(&BriefInsert, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
    run_every_order(&BriefInsert, 2);
}

/// The chunk that a late process inserts again after a delete is not confirmed.
#[test]
fn a_late_spill_leaves_no_chunks() {
    run_every_order(&LateSpill, 2);
}

#[test]
fn sorted_arrays_lose_no_elements_and_stay_sorted() {
    for transactions in [false, true] {
        let wrong = first_failure(&OrderedOverflows, schedules_per_test(), transactions, None);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }
}

/// Each guard is needed: some schedule fails without the guard.
#[test]
fn each_guard_of_overflow_arrays_is_needed() {
    for sabotage in [
        Sabotage::ArrayWorkKey,
        Sabotage::AppliedVersion,
        Sabotage::PendingArrayWork,
        Sabotage::IdleArray,
        Sabotage::ProvisionalMark,
        Sabotage::PublishKey,
    ] {
        let wrong = first_failure(&Overflows, 5_000, false, Some(sabotage));
        assert!(wrong.is_some(), "no schedule fails without {sabotage:?}");
    }
}
