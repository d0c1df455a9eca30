//! The tests that every backend passes: plain functions that get an empty database.
//!
//! [`for_every_test`] lists the tests, and a test checks that the list is complete.
#![expect(missing_docs, reason = "the name of a test says what it tests")]
#![expect(clippy::missing_panics_doc, reason = "a test panics when it fails")]

pub mod backend;
pub mod typed;

/// Passes the list of all tests to a macro, grouped by the files in `suite/`.
macro_rules! for_every_test {
    ($run:ident $($context:tt)*) => {
        $run! { $($context)*
            backend {
                aggregate: [
                    a_missing_collection_is_empty,
                    a_stage_that_writes_is_unsupported,
                    a_transaction_sees_its_own_writes,
                    an_unknown_stage_is_unsupported,
                    documents_are_changed_by_pipelines,
                    documents_are_grouped_joined_and_computed,
                    removed_fields_keep_their_position,
                    variables_have_values,
                ]
                changes: [
                    a_collection_or_the_whole_database,
                    dropping_a_watch_does_not_affect_other_watches,
                    a_filter_chooses_events,
                    a_lookup_returns_the_current_document,
                    a_watch_starts_at_a_time,
                    a_token_resumes_after_its_event,
                    transaction_events_arrive_at_the_commit,
                    an_error_ends_the_stream,
                    an_event_of_more_than_16_mb,
                    dropping_a_collection_ends_its_watch,
                    dropping_a_wait_loses_nothing,
                    every_write_has_an_event,
                    many_watchers_see_the_same,
                    invalid_resume_tokens_are_refused,
                    wrappers_forward_change_streams,
                ]
                collection: [
                    an_invalid_name_is_rejected,
                    a_snapshot_outlives_a_drop,
                    created_listed_and_dropped,
                    creating_an_existing_collection_keeps_documents,
                    dropping_removes_documents_and_indexes,
                ]
                count: [
                    counts_all_or_what_matches,
                    stops_at_the_limit,
                ]
                delete: [
                    deletes_one_or_all,
                    no_match_deletes_nothing,
                ]
                distinct: [
                    a_transaction_sees_its_own_writes,
                    each_value_once,
                    distinct_includes_array_elements,
                    more_values_than_fit_in_a_reply,
                    an_empty_collection_has_no_values,
                    equal_numbers_of_different_types_merge,
                ]
                find: [
                    a_missing_collection_is_empty,
                    an_unknown_operator_is_unsupported,
                    batches_come_in_order_and_complete,
                    documents_come_back_byte_for_byte,
                    dropping_a_half_read_cursor_is_harmless,
                    dropping_a_wait_for_a_batch_loses_no_documents,
                    filter_sort_limit_and_projection,
                    a_limit_of_zero_returns_no_documents,
                ]
                find_and_modify: [
                    changes_in_a_transaction_are_invisible_outside,
                    an_error_changes_nothing,
                    array_filters_and_positions,
                    before_or_after,
                    deletes_in_order,
                    no_match_gives_nothing_or_inserts,
                    concurrent_takes_get_different_documents,
                ]
                find_each: [
                    a_filter_narrows_every_key,
                    a_key_with_a_dollar_is_a_value,
                    arrays_match_by_element,
                    keys_match_across_number_types,
                    results_can_exceed_a_batch,
                    no_keys_find_nothing,
                    sort_and_limit_are_per_key,
                ]
                find_several: [
                    a_transaction_sees_its_own_writes,
                    an_invalid_query_is_an_error,
                    each_query_has_its_own_options,
                    missing_collections_are_empty,
                    results_can_exceed_a_batch,
                    values_are_not_interpreted,
                ]
                index: [
                    a_missing_collection_has_none,
                    creating_again_changes_nothing,
                    descending_and_compound_unique,
                    different_options_are_refused,
                    dropping,
                    a_partial_unique_index_covers_matching_documents,
                    a_sparse_unique_index_ignores_missing_fields,
                    index_specifications_round_trip,
                    a_unique_index_over_duplicates_fails,
                ]
                insert: [
                    a_dropped_insert_keeps_the_order,
                    a_duplicate_array_element_is_named,
                    a_duplicate_id_is_named,
                    a_duplicate_key_is_named,
                    many_documents,
                    an_empty_insert_succeeds,
                    stops_at_the_first_failure,
                    unordered_ends_a_transaction_at_the_first_failure,
                    unordered_goes_on_after_a_failure,
                ]
                max_time: [
                    a_read_that_takes_too_long_is_a_timeout,
                    a_timeout_ends_a_transaction,
                    the_time_between_batches_does_not_count,
                ]
                transaction: [
                    a_cursor_continues_in_its_transaction,
                    a_cursor_ends_with_its_transaction,
                    a_read_snapshot_is_stable,
                    abort_discards_writes,
                    after_the_end_every_call_fails,
                    an_error_ends_the_transaction,
                    commit_shows_all_at_once,
                    dropping_aborts,
                    one_of_two_overlapping_writers_wins,
                    concurrent_operations_run_in_turn,
                    reads_its_own_writes,
                    the_first_to_commit_wins,
                ]
                update: [
                    a_duplicate_key_is_named,
                    a_failure_keeps_earlier_changes,
                    replacements_and_operators_are_separate,
                    a_replacement_keeps_only_the_id,
                    an_unknown_operator_is_unsupported,
                    an_upsert_inserts_where_nothing_matches,
                    array_filters_choose_elements,
                    matched_is_not_modified,
                    no_match_changes_nothing,
                    updates_one_or_all,
                    the_id_cannot_change,
                ]
                wrapper: [
                    a_delayed_operation_happens_later,
                    a_fault_after_keeps_the_effect,
                    a_fault_before_prevents,
                    a_fault_ends_a_transaction,
                    a_hanging_operation_can_be_dropped,
                    faults_count_matching_operations,
                    the_recorder_keeps_order_and_transactions,
                ]
            }
            typed {
                bulk: [
                    a_failure_ends_an_ordered_bulk,
                    a_full_array_fails_only_its_write,
                    upserts_run_in_order,
                    unmet_conditions_are_reported_per_write,
                    a_bulk_in_a_transaction_is_atomic,
                    many_writes_are_one_operation,
                    mixed_writes_in_order,
                    an_unordered_bulk_continues_after_failures,
                    an_invalid_write_fails_in_its_place,
                    managed_fields_are_set,
                ]
                aggregate: [
                    a_pipeline_returns_typed_rows,
                    writing_stages_are_rejected,
                    aggregates_in_a_transaction_see_its_writes,
                    distinct_values_and_elements,
                    filter_sort_and_limit_apply_before_aggregation,
                    groups_by_one_field_and_by_several,
                    empty_results_have_no_average,
                    null_and_missing_are_one_group,
                    sums_and_averages_have_their_types,
                    minimum_and_maximum,
                    overflows_and_misfits_are_errors,
                ]
                check: [
                    concurrent_writes_cause_no_findings,
                    a_check_resumes_from_a_token,
                    every_fault_is_found,
                    a_valid_database_has_no_findings,
                ]
                closing: [
                    a_closed_database_rejects_all_operations,
                    writes_persist_after_close,
                ]
                decode: [
                    ids_stored_as_text_are_refused,
                    uuids_of_older_drivers_are_declared,
                    a_selection_error_names_the_document,
                    an_aggregate_of_a_wrong_type_names_the_path,
                    a_broken_target_fails_only_its_referrers,
                    a_missing_field_is_named,
                    a_wrong_type_names_the_document,
                    the_stored_layout_is_plain_mongodb,
                    unknown_fields_survive_updates,
                ]
                rollups: [
                    a_bulk_is_counted,
                    a_transaction_updates_rollups_atomically,
                    documents_are_counted,
                    concurrent_writes_are_counted,
                    numbers_of_any_width_meet_conditions,
                    conditions_and_soft_deletes_are_respected,
                    parents_deleted_and_inserted_again_are_recomputed,
                    reference_arrays_count_each_target_once,
                    the_check_finds_rollups_changed_by_other_clients,
                    the_latest_are_kept,
                    recomputed_latest_list_includes_concurrent_change,
                    cascaded_and_detached_children_do_not_count,
                    operations_of_rollup_writes,
                    a_sum_that_overflows_is_an_error,
                    numbers_of_equal_value_count_alike,
                    a_large_insert_takes_few_operations,
                    rollups_cannot_be_written,
                    invalid_pending_work_is_reported,
                    rollups_survive_a_crash_at_every_operation,
                ]
                computed: [
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
                copies: [
                    a_bulk_fills_copies_and_fans_out,
                    fan_outs_reach_copies_of_copies,
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
                delete_rules: [
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
                edit: [
                    an_invalid_field_blocks_no_other_field,
                    a_conflict_restarts_the_transaction,
                    a_default_is_stored,
                    a_deleted_document_stays_deleted,
                    edits_work_in_transactions,
                    modify_has_limited_attempts,
                    concurrent_modifies_lose_no_change,
                    concurrent_changes_of_a_field_conflict,
                    only_what_changed_is_saved,
                    saves_of_different_fields_do_not_conflict,
                    invalid_saves_are_rejected,
                    concurrent_changes_of_other_fields_stay,
                ]
                elements: [
                    equal_conditions_share_an_array_filter,
                    concurrent_pushes_keep_the_best,
                    elements_stay_within_their_max,
                    matching_elements_are_updated,
                    nested_arrays_and_several_conditions,
                    pushes_have_a_position_an_order_and_a_slice,
                    the_first_element_is_updated,
                    missing_elements_differ_from_missing_documents,
                    ambiguous_first_matching_is_an_error,
                ]
                enums: [
                    a_save_mixes_no_variants,
                    filters_match_variants,
                    an_unknown_variant_is_reported,
                    an_update_in_a_variant_is_conditional,
                    concurrent_updates_mix_no_variants,
                ]
                expression: [
                    dates_and_texts_are_compared,
                    elements_can_be_compared_by_index,
                    missing_and_null_have_an_order,
                    numbers_are_computed,
                    values_in_expressions_stay_values,
                ]
                managed_fields: [
                    a_stale_save_is_a_conflict,
                    an_insert_sets_managed_fields,
                    every_update_increments_the_version,
                    modify_retries_conflicts,
                    managed_fields_cannot_be_saved,
                ]
                filter: [
                    an_absent_optional_filter_matches_all,
                    and_or_not,
                    any_element,
                    comparisons,
                    maps_by_key,
                    missing_null_and_exists,
                    patterns_of_any_text_match_that_text_alone,
                    prefixes_and_patterns,
                    the_same_element,
                    unsupported_element_filters_are_errors,
                ]
                find: [
                    a_projection_reads_its_fields,
                    a_stream_returns_all_in_order,
                    by_id_and_by_ids,
                    count_and_exists,
                    one_and_first,
                    sort_and_limit,
                ]
                enum_documents: [
                    a_document_becomes_another_variant_as_a_whole,
                    an_unknown_kind_is_a_decode_error,
                    a_save_writes_what_changed_in_its_variant,
                    a_variant_is_stored_like_the_enum,
                    shared_fields_update_all_variants,
                    documents_are_found_together_and_alone,
                    indexes_of_a_variant_are_partial,
                    pages_are_of_one_variant_or_of_all,
                    references_target_one_variant_or_any,
                    managed_fields_are_set_in_every_variant,
                    writes_of_a_variant_skip_the_others,
                ]
                read_options: [
                    a_hint_selects_the_index,
                    a_hint_without_an_index_is_an_error,
                    comments_and_preferences_reach_all_reads,
                ]
                reference_updates: [
                    a_reference_moves_twice_in_one_transaction,
                    reference_updates_report_modified_documents,
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
                json: [
                    bson_types_are_texts_in_json,
                    joins_are_documents_in_json,
                ]
                native: [
                    timestamps_combine_with_derived_fields,
                    a_save_ignores_lost_precision,
                    a_rounding_save_keeps_spilled_elements,
                    filters_and_updates_use_stored_values,
                    an_upsert_returns_the_stored_document,
                    native_types_are_stored_as_bson_types,
                    unrepresentable_values_are_decode_errors,
                ]
                nested_references: [
                    deletes_apply_nested_rules,
                    deletes_find_unfinished_writes,
                    an_upgrade_adds_to_inverses,
                    concurrent_writes_leave_no_dangling_references,
                    the_index_is_declared,
                    dangling_references_are_found_and_repaired,
                    deletes_skip_missing_structs,
                    renamed_references_are_checked,
                    dangling_references_are_rejected,
                    crashes_leave_no_dangling_references,
                ]
                outcome: [
                    a_condition_gives_an_outcome,
                    delete_returns_the_document,
                    outcomes_in_a_transaction,
                    a_push_to_a_full_array_fails,
                    concurrent_spenders_never_overdraw,
                    concurrent_voters_count_once,
                    concurrent_workers_take_different_jobs,
                    update_returns_the_document_before_or_after,
                    update_first_follows_the_sort_order,
                    an_undecodable_result_reports_the_write,
                    managed_fields_are_updated,
                ]
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
                overflow_inverses: [
                    an_inverse_overflows,
                    deletes_check_spilled_referrers,
                    random_writes_maintain_overflow_inverses,
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
                overflow_sets: [
                    sets_compare_elements_like_the_server,
                    concurrent_additions_store_elements_once,
                    large_additions_append_new_elements,
                    large_additions_to_sets_add_once,
                    sets_include_resident_and_spilled_elements,
                    has_more_filter_selects_until_the_spill,
                ]
                overflow_references: [
                    inserts_and_deletes_maintain_inverses,
                    joins_use_references_and_inverses,
                    concurrent_writes_keep_inverses_consistent,
                    random_writes_match_a_model,
                    the_check_finds_inconsistent_inverses,
                    every_update_maintains_inverses,
                    transactions_maintain_inverses,
                    two_arrays_with_soft_deletes_match_a_model,
                    operations_of_a_push_with_an_inverse,
                    failed_inverse_updates_reject_the_write,
                    existing_arrays_keep_inverses_after_a_spill,
                    crashes_keep_inverses_consistent,
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
                overflow_several_arrays: [
                    several_arrays_grow_by_the_same_updates,
                    concurrent_updates_keep_arrays_equal,
                    several_arrays_in_larger_writes,
                    a_rejected_array_change_rejects_the_update,
                    operations_per_update_of_several_arrays,
                    random_updates_of_several_arrays_are_atomic,
                    crashed_updates_keep_arrays_equal,
                ]
                overflow_versions: [
                    renaming_a_spilled_array_is_an_error,
                    an_upgrade_keeps_nan_elements,
                    elements_within_the_limit_stay_resident,
                    changing_spilled_elements_is_an_error,
                    dropping_array_metadata_is_an_error,
                    plain_arrays_can_be_measured,
                ]
                page: [
                    a_sort_by_a_stored_array_fails,
                    a_forged_token_injects_no_operators,
                    a_page_in_a_transaction,
                    a_token_is_valid_for_its_query_only,
                    an_id_of_any_type,
                    late_pages_cost_the_same,
                    pages_sort_by_every_type,
                    joins_and_projections_have_pages,
                    pages_during_concurrent_writes,
                    pages_of_every_size_equal_the_list,
                    inserts_and_deletes_do_not_shift_pages,
                ]
                projection: [
                    an_index_alone_serves_a_projection,
                    explain_reports_a_scan_and_a_sort,
                    nested_projections_read_their_paths,
                    a_page_also_reads_its_sort_fields,
                ]
                fan_out: [
                    a_fan_out_survives_process_death,
                    current_reads_values_of_the_source,
                    a_worker_completes_abandoned_fan_outs,
                    an_unchanged_value_starts_no_fan_out,
                    a_changed_declaration_needs_a_backfill,
                    pending_reports_fan_out_progress,
                    a_single_process_runs_a_fan_out,
                    a_large_fan_out_runs_in_batches,
                    fan_out_of_copied_copies_has_constant_cost,
                    round_trips_of_copies_match_the_book,
                ]
                hooks: [
                    a_dropped_write_and_its_hooks_are_atomic,
                    a_failed_hook_rolls_back_the_write,
                    a_model_without_hooks_needs_no_extra_operation,
                    a_save_runs_its_hooks,
                    hooks_run_inside_the_transaction,
                    an_insert_runs_its_hooks,
                    nested_hooks_have_a_maximum_depth,
                    conflicts_are_retried_with_hooks,
                    every_delete_runs_its_hooks,
                    every_update_runs_its_hooks,
                    a_failed_after_commit_hook_keeps_the_write,
                ]
                hooks_narrowed: [
                    a_soft_delete_runs_the_hooks,
                    hooks_stay_in_the_scope_of_the_write,
                    hooks_run_for_upgraded_documents,
                    validation_stays_in_the_scope,
                    a_restore_is_validated,
                ]
                ids: [
                    a_hook_can_change_an_id_part,
                    a_part_never_changes,
                    load_in_a_transaction_sees_its_writes,
                    an_id_is_composed_of_fields,
                    an_upgrade_keeps_the_parts,
                    an_upsert_uses_the_composed_id,
                    children_are_found_by_id_prefix,
                    concurrent_inserts_create_one_counter,
                    different_parts_give_different_ids,
                    sequence_numbers_are_unique,
                    numbers_continue_after_existing_documents,
                    sequence_numbers_in_transactions_and_bulks,
                    parts_of_every_type_round_trip,
                    load_respects_scopes_and_soft_deletes,
                    load_reads_several_models_at_once,
                    invalid_id_parts_are_rejected,
                ]
                index_check: [
                    a_missing_unique_index_rejects_inserts,
                    missing_indexes_can_fail_the_open,
                    without_a_check_inserts_need_no_index,
                ]
                index_sync: [
                    a_replaced_index_is_built_first,
                    an_interrupted_replacement_is_completed,
                    a_target_has_an_index_of_unfinished_deletes,
                    a_rule_and_an_index_on_one_field,
                    a_changed_expiry_builds_no_index,
                    a_different_index_has_the_declared_name,
                    an_undeclared_expiry_is_removed,
                    a_failed_index_does_not_stop_the_others,
                    unique_index_ignores_missing_values,
                ]
                injection: [
                    json_bodies,
                    keys_of_maps,
                    patterns_are_patterns,
                    regular_expressions_as_values,
                    texts_in_filters,
                    texts_in_updates,
                ]
                field_paths: [
                    every_path_can_be_filtered,
                    every_path_can_be_updated,
                    paths_can_be_projected,
                    values_are_renamed,
                    single_value_paths_can_be_sorted,
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
                references: [
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
                rejections: [
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
                repair: [
                    a_repair_keeps_concurrent_changes,
                    a_repair_fixes_exactly_the_planted_faults,
                    a_planned_repair_writes_nothing,
                ]
                round_trips: [
                    round_trips_match_the_book,
                ]
                schema: [
                    declared_indexes_are_created,
                    different_indexes_are_reported_and_replaced_on_request,
                ]
                scope: [
                    all_scopes_can_be_watched,
                    a_join_stays_in_the_scope,
                    pages_use_the_scope_index,
                    a_page_token_is_valid_in_its_scope_only,
                    a_transaction_in_a_scope,
                    all_scopes_reads_and_writes_every_tenant,
                    other_tenants_documents_are_unreachable,
                    scopes_of_several_types,
                    several_scopes_in_one_bulk,
                    concurrent_tenants_do_not_interfere,
                    inserts_set_the_scope,
                ]
                shard_key: [
                    a_scope_is_part_of_the_shard_key,
                    an_id_as_shard_key_is_sufficient,
                    a_different_shard_key_is_a_different_document,
                    every_write_contains_the_shard_key,
                    update_first_needs_the_whole_shard_key,
                    shard_key_index_exists_without_a_cluster,
                    the_shard_key_is_immutable,
                    managed_writes_contain_the_shard_key,
                ]
                snapshots: [
                    drift_costs_one_query_for_each_source,
                    drift_is_found,
                    origins_are_stored,
                    drift_without_an_origin_uses_the_reference,
                    origins_and_snapshots_stay,
                ]
                soft_delete: [
                    reads_by_id_join_present_documents,
                    a_delete_sets_deleted_at,
                    a_deleted_document_keeps_only_its_id,
                    a_soft_delete_is_one_operation,
                    permanent_deletes_remove_documents,
                    an_aborted_transaction_undoes_deletes,
                    a_renamed_field_with_a_chrono_date,
                    deletes_and_restores_are_single_change_events,
                    deletes_in_a_bulk,
                    deletes_of_several_documents,
                    deleted_documents_are_unreachable,
                    one_of_concurrent_deletes_applies,
                    deleted_documents_can_be_read,
                    deleted_documents_can_be_restored,
                ]
                stored_forms: [
                    copies_of_none_are_stored_as_missing,
                    a_missing_field_matches_its_default,
                    none_is_stored_as_an_insert_stores_it,
                    nullified_fields_are_stored_as_missing,
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
                time_limits: [
                    a_session_limits_every_read,
                    a_timeout_names_the_operation,
                    joins_share_the_limit,
                    writes_are_not_limited,
                ]
                trace: [
                    each_backend_operation_is_an_event,
                    events_name_the_stage_of_follow_up_work,
                    retries_name_their_reason,
                    fallbacks_name_their_reason,
                    failed_follow_up_work_is_warned_about,
                    a_dropped_operation_is_an_event,
                    slow_operations_are_warned_about,
                    explaining_plans_does_not_disturb_transactions,
                    a_collection_scan_is_warned_about,
                    an_array_near_its_maximum_is_warned_about,
                    an_operation_is_one_span,
                    plans_of_writes_and_pipelines_are_recorded,
                    a_query_per_document_is_warned_about,
                ]
                transaction: [
                    a_permanent_conflict_fails_early,
                    a_dropped_transaction_is_aborted,
                    a_handle_kept_after_the_end_is_unusable,
                    a_time_limit_aborts,
                    a_time_limit_ends_the_attempts,
                    a_write_outside_the_transaction_is_refused,
                    all_of_300_on_one_document_succeed,
                    all_of_32_on_one_document_succeed,
                    a_transaction_is_atomic,
                    an_application_error_aborts,
                    conflicts_are_retried,
                    writes_are_invisible_before_the_commit,
                ]
                update_requirements: [
                    updates_create_no_places,
                    decimals_can_be_read_again,
                    elements_in_chunk_documents_stay_in_their_range,
                    null_is_a_missing_value,
                    numbers_beside_computed_fields_stay_in_their_range,
                    numbers_stay_in_their_range,
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
                upsert: [
                    an_unmet_condition_does_not_insert,
                    a_duplicate_in_a_transaction_is_a_conflict,
                    a_duplicate_of_another_key_is_an_error,
                    concurrent_upserts_have_one_insert,
                    concurrent_upserts_in_transactions,
                    an_upsert_inserts_or_updates,
                    an_upsert_returns_the_document,
                    invalid_upserts_are_rejected,
                    managed_fields_are_set,
                ]
                validation: [
                    an_error_lists_all_violations,
                    an_invalid_outcome_is_rolled_back,
                    concurrent_updates_keep_the_rules,
                    resident_and_spilled_elements_are_validated,
                    invalid_updates_make_transactions_rollback_only,
                    set_values_are_validated_without_a_read,
                    existing_violations_do_not_fail_updates,
                    whole_documents_are_checked,
                ]
                variants: [
                    elements_of_a_variant_are_updated,
                    updates_inside_a_variant_are_conditional,
                    native_types_work_in_variants,
                    variants_are_read_in_rows_and_pages,
                    unsupported_variant_updates_are_errors,
                ]
                watch: [
                    an_undecodable_document_is_a_single_error,
                    a_condition_filters_changes,
                    a_dropped_wait_loses_no_change,
                    a_watch_starts_at_a_time,
                    a_token_resumes_after_its_change,
                    an_invalid_token_is_an_error,
                    dropping_the_collection_ends_the_watch,
                    changes_arrive_in_order,
                ]
                without_runtime: [
                    reads_and_writes_work,
                    transactions_and_changes_work,
                ]
                write: [
                    conditions_and_updates_are_atomic,
                    a_dropped_write_is_finished,
                    a_duplicate_key_is_typed,
                    a_lost_answer_is_a_connection_error,
                    an_array_stays_within_its_max,
                    arrays_are_changed,
                    concurrent_inserts_of_one_key_have_one_winner,
                    concurrent_pushes_stay_within_the_max,
                    delete_one_and_many,
                    fields_are_set_and_unset,
                    insert_returns_the_document,
                    many_documents_stay_within_their_max,
                    numbers_are_changed,
                    update_many_by_condition,
                ]
            }
        }
    };
}

pub(crate) use for_every_test;

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    /// A function outside the list would never run.
    #[test]
    fn every_test_is_listed() {
        let list = include_str!("suite.rs");
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/suite");
        for file in rust_files_in_groups(&dir) {
            let group = name(file.parent().expect("a group"));
            let (_, listed) = list
                .split_once(&format!("{group} {{"))
                .expect("a listed group");
            let module = name(&file);
            let listed = listed.split_once(&format!(" {module}: ["));
            let (_, listed) = listed.unwrap_or_else(|| panic!("{group}::{module} is not listed"));
            let (listed, _) = listed.split_once(']').expect("the end of a list");
            let code = fs::read_to_string(&file).expect("a source file");
            for test in code
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
            {
                let (test, _) = test.split_once('(').expect("a function");
                assert!(
                    listed.contains(&format!(" {test},")),
                    "{group}::{module}::{test} is not listed in suite.rs"
                );
            }
        }
    }

    fn rust_files_in_groups(dir: &Path) -> Vec<PathBuf> {
        let entries = |dir: &Path| fs::read_dir(dir).expect("a directory").flatten();
        let groups = entries(dir)
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        groups
            .flat_map(|group| entries(&group).map(|entry| entry.path()))
            .collect()
    }

    fn name(path: &Path) -> &str {
        path.file_stem()
            .and_then(|name| name.to_str())
            .expect("a name")
    }
}
