//! The tests of derived data that every backend passes: plain functions that get an empty database.
//!
//! [`for_every_test`] lists the tests, and a test checks that the list is complete.
#![expect(missing_docs, reason = "the name of a test says what it tests")]
#![expect(clippy::missing_panics_doc, reason = "a test panics when it fails")]

pub mod copied_fields;
pub mod derived_fields;
pub mod large_arrays;
pub mod relations;
pub mod verification;

/// Passes the list of all tests to a macro, grouped by the files in `suite/`.
macro_rules! for_every_test {
    ($run:ident $($context:tt)*) => {
        $run! { $($context)*
            copied_fields {
                copies: [
                    a_bulk_fills_copies_and_fans_out,
                    fan_outs_reach_copies_of_copies,
                    current_ends_in_a_circle,
                    inserts_only_read_the_source,
                    a_transaction_includes_fan_outs,
                    a_partial_insert_is_revalidated,
                    copies_are_filled_at_insert,
                    copies_follow_their_source,
                    copies_in_arrays_follow,
                    copies_in_arrays_of_arrays_follow,
                    pending_fan_outs_are_reported,
                    many_dependents_are_updated_in_background,
                    changed_references_refill_copies,
                    snapshots_stay,
                    the_check_finds_stale_copies,
                    the_indexes_are_declared,
                    invalid_copies_are_rejected,
                    deleted_sources_keep_or_nullify_copies,
                    deleted_sources_clear_copies,
                    copies_converge_after_crashes,
                    concurrent_writes_converge,
                ]
                fan_out: [
                    a_fan_out_survives_process_death,
                    current_reads_values_of_the_source,
                    a_worker_completes_abandoned_fan_outs,
                    an_unchanged_value_starts_no_fan_out,
                    a_changed_declaration_needs_a_backfill,
                    pending_reports_fan_out_progress,
                    the_age_of_pending_work_is_independent_of_the_lease,
                    the_number_of_background_fan_outs_is_limited,
                    fan_outs_of_copied_copies_need_no_place_in_the_queue,
                    the_lease_is_as_long_as_set,
                    a_single_process_runs_a_fan_out,
                    a_large_fan_out_runs_in_batches,
                    fan_out_of_copied_copies_has_constant_cost,
                    round_trips_of_copies_match_the_book,
                ]
                snapshots: [
                    a_rollup_sums_snapshots,
                    drift_costs_one_query_for_each_source,
                    drift_is_found,
                    origins_are_stored,
                    drift_without_an_origin_uses_the_reference,
                    origins_and_snapshots_stay,
                ]
            }
            large_arrays {
                overflow: [
                    a_delete_reads_no_elements,
                    a_projection_knows_whether_there_is_more,
                    a_push_is_part_of_its_update,
                    array_updates_are_atomic_in_transactions,
                    all_elements_are_read,
                    an_array_is_replaced,
                    an_edited_document_leaves_the_array_alone,
                    any_finds_resident_and_spilled_elements,
                    delete_removes_chunks,
                    pull_removes_resident_and_spilled_elements,
                    update_changes_resident_and_spilled_elements,
                    pushes_overflow,
                    stored_layout_matches_the_book,
                    hidden_arrays_are_unreachable,
                    operations_per_read_and_write,
                ]
                overflow_combinations: [
                    limits_inside_elements_apply,
                    has_more_agrees_with_the_filter,
                    a_save_keeps_the_elements,
                    a_write_increments_the_version_once,
                    change_events_contain_resident_elements,
                    hooks_see_all_that_is_inserted,
                    joins_load_spilled_references,
                    partially_read_arrays_are_rejected,
                ]
                overflow_delete_rules: [
                    resident_and_spilled_references_restrict_deletes,
                    a_delete_pulls_resident_and_spilled_references,
                    spilled_references_cascade_deletes,
                    delete_rules_apply_to_existing_arrays,
                    concurrent_writes_leave_no_dangling_references,
                    large_cascades_are_atomic,
                    delete_rules_apply_in_transactions,
                    the_check_finds_dangling_spilled_references,
                    indexes_of_overflow_references_are_declared_once,
                    documents_of_one_insert_can_reference_each_other,
                    many_targets_are_checked_in_batches,
                    operations_of_a_push_with_a_delete_rule,
                    targets_must_exist,
                    crashed_writes_leave_no_dangling_references,
                ]
                overflow_faults: [
                    a_rejected_change_leaves_no_pending_work,
                    concurrent_writes_lose_no_elements,
                    the_check_finds_changed_array_metadata,
                    crashed_writes_lose_no_elements,
                    crashed_maintenance_loses_no_elements,
                    a_transaction_restarts_during_a_spill,
                    a_write_waits_for_a_pending_spill,
                    saves_during_a_spill_succeed_or_conflict,
                    a_partial_pull_updates_the_length,
                ]
                overflow_inverses: [
                    an_inverse_overflows,
                    deletes_check_spilled_referrers,
                    random_writes_maintain_overflow_inverses,
                    inserted_referrers_are_added_once,
                    joins_load_spilled_references,
                    joins_read_only_up_to_the_limit,
                    concurrent_writes_keep_inverses_consistent,
                    large_inverse_removals_run_in_batches,
                    references_without_a_rule_overflow,
                    the_check_reads_spilled_entries,
                    operations_of_a_reference_to_an_outlier,
                    dangling_references_are_rejected,
                    existing_inverses_spill_and_fold,
                    crashes_keep_inverses_consistent,
                ]
                overflow_maintenance: [
                    proposed_limits_have_bounds,
                    arrays_are_folded_in_the_background,
                    inline_arrays_are_folded,
                    oversized_arrays_stay_spilled,
                    folds_are_limited_by_bytes,
                    the_largest_documents_are_spilled,
                    arrays_before_overflow_can_be_missing_or_large,
                    arrays_before_overflow_are_spilled,
                    short_arrays_are_folded,
                    empty_chunks_are_deleted,
                    a_failed_fold_does_not_stop_the_others,
                ]
                overflow_order: [
                    random_writes_match_a_sorted_list,
                    concurrent_pushes_stay_in_order,
                    the_first_are_in_the_document,
                    the_latest_are_in_the_document,
                    the_sort_field_cannot_be_updated,
                    elements_spilled_by_size_stay_spilled,
                    operations_of_ordered_pushes,
                    existing_arrays_are_sorted,
                    order_survives_a_crash_at_every_operation,
                ]
                overflow_references: [
                    inserts_and_deletes_maintain_inverses,
                    joins_use_references_and_inverses,
                    concurrent_writes_keep_inverses_consistent,
                    random_writes_match_a_model,
                    the_check_finds_inconsistent_inverses,
                    an_inverse_that_changes_during_a_check_is_read_again,
                    every_update_maintains_inverses,
                    transactions_maintain_inverses,
                    two_arrays_with_soft_deletes_match_a_model,
                    operations_of_a_push_with_an_inverse,
                    failed_inverse_updates_reject_the_write,
                    existing_arrays_keep_inverses_after_a_spill,
                    crashes_keep_inverses_consistent,
                ]
                overflow_sets: [
                    sets_compare_elements_like_the_server,
                    concurrent_additions_store_elements_once,
                    large_additions_append_new_elements,
                    large_additions_to_sets_add_once,
                    sets_include_resident_and_spilled_elements,
                    has_more_filter_selects_until_the_spill,
                ]
                overflow_several_arrays: [
                    several_arrays_grow_by_the_same_updates,
                    concurrent_updates_keep_arrays_equal,
                    several_arrays_in_larger_writes,
                    a_rejected_array_change_rejects_the_update,
                    operations_per_update_of_several_arrays,
                    random_updates_of_several_arrays_are_atomic,
                    crashed_updates_keep_arrays_equal,
                ]
                overflow_sizes: [
                    a_pull_of_large_values_is_rejected,
                    large_elements_keep_documents_small,
                    documents_stay_small_during_writes,
                    growing_elements_are_limited,
                    the_largest_elements_are_pushed,
                    long_references_are_removed_in_batches,
                    referrers_with_long_ids_are_removed_in_batches,
                    long_references_keep_inverses_after_fold,
                    round_trips_do_not_grow_with_the_array,
                    operations_of_arrays_match_the_book,
                    changes_with_long_conditions_are_rejected,
                    two_arrays_share_the_size_limit,
                ]
                overflow_snapshots: [
                    drift_of_spilled_elements_is_found,
                    writes_without_a_snapshot_are_rejected,
                    resident_and_spilled_elements_have_snapshots,
                    the_most_expensive_stay_resident,
                    updates_of_many_fill_snapshots,
                    snapshots_cost_a_single_query,
                    crashes_lose_no_snapshots,
                ]
                overflow_versions: [
                    renaming_a_spilled_array_is_an_error,
                    an_upgrade_keeps_nan_elements,
                    elements_within_the_limit_stay_resident,
                    changing_spilled_elements_is_an_error,
                    dropping_array_metadata_is_an_error,
                    plain_arrays_can_be_measured,
                ]
            }
            relations {
                conditions: [
                    conditions_on_targets,
                    conditions_on_lists_of_targets,
                    conditions_on_children,
                    strategies_and_round_trips_of_conditions,
                    pages_continue_while_targets_change,
                    missing_targets_meet_no_condition,
                    hidden_targets_meet_no_condition,
                    writes_with_conditions_on_related_documents,
                    joins_with_conditions_on_related_documents,
                    more_ids_than_the_limit_need_a_lookup,
                    more_parents_than_the_limit_need_a_lookup,
                    a_lookup_contains_a_lookup,
                    a_lookup_keeps_to_the_scope,
                    many_children_of_few_parents_fit,
                    sorts_by_copies_of_targets,
                    copies_answer_joins,
                ]
                delete_rules: [
                    a_child_moves_to_a_parent_with_an_abandoned_tombstone,
                    a_retried_delete_leaves_no_tombstone,
                    a_referenced_variant_cannot_change,
                    a_blocked_delete_does_not_stop_recovery,
                    concurrent_writes_leave_no_dangling_references,
                    referrers_in_the_delete_set_do_not_restrict,
                    a_ttl_index_on_sources_is_refused,
                    a_ttl_index_on_targets_is_refused,
                    updates_wait_for_provisional_tombstones,
                    writers_wait_for_provisional_tombstones,
                    a_restricted_delete_removes_nothing,
                    a_restricted_descendant_keeps_its_ancestors,
                    recovery_removes_obsolete_intent_records,
                    crashed_deletes_leave_no_dangling_references,
                ]
                inverses: [
                    a_cascade_deletes_the_whole_tree,
                    deletes_apply_the_delete_rules,
                    saves_and_bulks_maintain_inverses,
                    an_insert_adds_to_inverses,
                    an_update_moves_and_removes_inverse_entries,
                    concurrent_writes_keep_inverses_consistent,
                    the_check_finds_missing_inverse_entries,
                    a_failed_update_makes_a_transaction_rollback_only,
                    dangling_references_and_full_inverses_are_rejected,
                    crashes_keep_inverses_consistent,
                ]
                nested_references: [
                    deletes_apply_nested_rules,
                    deletes_find_unfinished_writes,
                    an_upgrade_adds_to_inverses,
                    an_upgrade_keeps_known_referrers_once,
                    concurrent_writes_leave_no_dangling_references,
                    the_index_is_declared,
                    dangling_references_are_found_and_repaired,
                    deletes_skip_missing_structs,
                    renamed_references_are_checked,
                    dangling_references_are_rejected,
                    crashes_leave_no_dangling_references,
                ]
                polymorphic: [
                    a_reference_in_a_variant,
                    an_enum_of_documents,
                    an_enum_of_references,
                    children_by_a_reference_in_a_variant,
                    in_a_transaction,
                    one_query_for_each_edge_and_level,
                    only_needed_fields_are_read,
                    streams_and_pages,
                    variants_in_an_array,
                    a_misfit_is_a_decode_error,
                ]
                reference_updates: [
                    a_reference_moves_twice_in_one_transaction,
                    reference_updates_report_modified_documents,
                ]
                references: [
                    a_refused_document_has_its_position,
                    delete_applies_the_delete_rules,
                    a_dry_run_reports_the_delete_set,
                    a_large_cascade_completes,
                    concurrent_delete_first_picks_different_documents,
                    concurrent_writes_leave_no_dangling_references,
                    references_across_scopes_and_soft_deletes,
                    the_index_is_declared,
                    dangling_references_are_rejected,
                    an_unfinished_insert_cannot_be_referenced,
                    crashed_writes_leave_no_dangling_references,
                ]
                relation: [
                    reads_by_id_join_relations,
                    a_failed_query_names_its_model,
                    a_sorted_join,
                    a_join_with_a_condition,
                    a_projection_can_be_joined,
                    a_stream_is_joined_batch_by_batch,
                    an_array_of_references,
                    an_optional_reference,
                    children_of_many_to_many,
                    children_of_a_joined_document,
                    ids_match_across_number_types,
                    long_ids_are_queried_in_batches,
                    several_and_nested_relations,
                    the_children_of_many_parents,
                    the_children_of_one_parent,
                    the_number_of_queries_is_fixed,
                ]
                round_trips: [
                    round_trips_match_the_book,
                ]
                soft_cascade: [
                    a_circle_of_references_ends,
                    a_crash_deletes_all_or_none,
                    a_delete_of_the_first_document_cascades,
                    a_document_of_two_targets_waits_for_both,
                    a_large_cascade_needs_a_transaction,
                    a_restore_below_a_deleted_document_is_refused,
                    a_restore_can_move_the_document,
                    a_restore_conflicts_with_a_delete_of_a_second_target,
                    a_restore_conflicts_with_a_delete_of_the_target,
                    a_transaction_undoes_a_cascade,
                    concurrent_restores_of_two_targets_restore_the_document,
                    concurrent_writes_leave_no_live_referrers,
                    documents_deleted_before_stay_deleted,
                    deletes_in_a_bulk_cascade,
                    deletes_of_many_documents_cascade,
                    permanent_deletes_remove_the_referrers,
                    referrers_are_deleted_and_restored_together,
                    spilled_references_cascade,
                    the_plan_and_the_preview_name_the_referrers,
                ]
                tenant_documents: [
                    a_crash_leaves_a_whole_tenant_or_none,
                    a_tenant_exists,
                    inserts_beside_the_delete_of_their_tenant,
                    the_documents_of_a_tenant_go_with_the_tenant,
                ]
                tenants: [
                    a_later_parent_counts_children_of_its_scope,
                    array_actions_are_limited_to_the_scope,
                    children_are_counted_in_their_scope,
                    copies_follow_sources_of_their_scope,
                    pipelines_read_only_visible_collections,
                    references_to_other_scopes_are_rejected,
                    crashed_writes_stay_in_their_scope,
                ]
            }
            verification {
                check: [
                    concurrent_writes_cause_no_findings,
                    a_check_resumes_from_a_token,
                    every_fault_is_found,
                    a_valid_database_has_no_findings,
                ]
                copy: [
                    a_copy_keeps_copies_of_fields,
                    a_copy_keeps_large_arrays_and_sequences,
                    a_copy_keeps_references_and_inverses,
                    a_copy_keeps_rollups,
                    sequences_continue_in_the_copy,
                ]
                explain: [
                    explain_writes_nothing,
                    a_plan_has_strategy_reasons_and_pending_work,
                    errors_of_an_explained_write_are_returned,
                    a_delete_in_batches_is_explained,
                    a_dropped_explain_writes_nothing,
                    explain_runs_no_hooks,
                ]
                rejections: [
                    a_rejected_write_is_not_explained,
                    the_error_names_a_full_document,
                    the_error_names_a_full_parent,
                    a_full_parent_does_not_stop_other_parents,
                    a_full_parent_does_not_stop_recomputes,
                    a_rejecting_referrer_is_reported,
                    a_rejected_second_copy_stays_pending,
                    a_rejected_copy_does_not_stop_batches,
                    a_rejected_copy_does_not_stop_others,
                    a_rejected_copy_does_not_stop_revalidation,
                ]
                repair: [
                    a_repair_keeps_concurrent_changes,
                    a_repair_fixes_exactly_the_planted_faults,
                    a_planned_repair_writes_nothing,
                ]
                upgrade: [
                    a_bulk_fails_where_an_upgrade_does,
                    a_job_that_is_dropped_is_run_again,
                    a_job_upgrades_the_rest,
                    a_transaction_upgrades_within_itself,
                    update_many_sees_upgraded_documents,
                    a_write_upgrades_its_document_first,
                    reads_upgrade_documents,
                    a_failed_upgrade_is_an_error_of_its_document,
                    rounded_values_are_not_upgraded,
                ]
            }
            derived_fields {
                averages: [
                    a_rating_sorts_filters_and_pages,
                    a_rollup_declared_later_reads_as_empty,
                    an_average_with_a_sum_that_overflows_is_an_error,
                    averages_and_extremes_follow_each_write,
                    averages_over_arrays_of_references_ignore_soft_deletes,
                    averages_survive_a_crash_at_every_operation,
                    concurrent_writes_keep_averages_and_extremes_exact,
                    extremes_are_read_by_one_index,
                    parents_inserted_after_their_children_get_averages,
                    the_check_finds_wrong_averages,
                ]
                computed: [
                    texts_are_computed,
                    conflicting_operators_are_refused,
                    numeric_map_keys_are_not_positions,
                    a_check_finds_and_a_repair_computes,
                    readers_see_consistent_computed_fields,
                    a_save_computes_and_refuses_edited_computed_fields,
                    pipeline_updates_equal_operator_updates,
                    an_insert_computes,
                    an_upgrade_computes,
                    every_update_computes,
                    updates_and_the_check_compute_equal_values,
                    computed_fields_need_no_extra_operation,
                    computed_fields_work_with_snapshots_and_copies,
                    upserts_bulks_and_updates_of_many_compute,
                    values_are_literal,
                    failed_computations_write_nothing,
                    inexpressible_updates_use_a_transaction,
                ]
                ignore_case: [
                    an_update_of_an_unknown_text_is_refused,
                    an_upgrade_adds_caseless_texts,
                    concurrent_inserts_of_one_text_conflict,
                    texts_are_found_without_case_after_each_write,
                    older_documents_are_no_duplicates,
                    the_check_finds_and_the_repair_adds_caseless_texts,
                    unique_texts_ignore_case,
                ]
                rollup_conditions: [
                    a_comparison_with_none_is_an_error,
                    conditions_compare_values,
                ]
                rollups: [
                    a_bulk_is_counted,
                    a_transaction_updates_rollups_atomically,
                    documents_are_counted,
                    concurrent_writes_are_counted,
                    numbers_of_any_width_meet_conditions,
                    conditions_and_soft_deletes_are_respected,
                    parents_deleted_and_inserted_again_are_recomputed,
                    parents_of_a_failed_insert_are_recomputed,
                    reference_arrays_count_each_target_once,
                    the_check_finds_rollups_changed_by_other_clients,
                    the_latest_are_kept,
                    recomputed_latest_list_includes_concurrent_change,
                    cascaded_and_detached_children_do_not_count,
                    operations_of_rollups_match_the_book,
                    a_sum_that_overflows_is_an_error,
                    numbers_of_equal_value_count_alike,
                    a_large_insert_takes_few_operations,
                    an_insert_updates_many_parents_at_once,
                    rollups_cannot_be_written,
                    invalid_pending_work_is_reported,
                    rollups_survive_a_crash_at_every_operation,
                ]
                trees: [
                    a_circle_is_refused,
                    a_large_subtree_moves_in_the_background,
                    a_rejected_copy_does_not_stop_a_move,
                    a_slow_fan_out_continues_in_the_background,
                    a_copy_beside_the_ancestors_stays_on_its_level,
                    a_circle_is_told_from_wrong_ancestors,
                    an_insert_above_its_descendants_is_refused,
                    the_moved_document_is_the_checked_document,
                    a_circle_through_older_documents_is_refused,
                    a_deep_tree_needs_a_small_stack,
                    a_move_takes_the_documents_below_along,
                    a_transaction_sees_its_own_moves,
                    a_tree_has_scopes_and_soft_deletes,
                    a_tree_is_read_by_queries,
                    an_insert_beside_a_move_is_below_the_moved_document,
                    concurrent_moves_make_no_circle,
                    delete_rules_keep_the_tree,
                    operations_of_trees_match_the_book,
                    several_documents_move_in_one_call,
                    trees_converge_after_crashes,
                    wrong_ancestors_are_repaired,
                ]
            }
        }
    };
}

pub(crate) use for_every_test;

#[test]
fn every_test_is_listed() {
    odm_tests::suite::assert_complete(include_str!("suite.rs"), "tests/derived/suite");
}
