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
                    a_backup_has_all_collections,
                    a_compaction_keeps_all_documents,
                    an_invalid_name_is_rejected,
                    a_snapshot_outlives_a_drop,
                    created_listed_and_dropped,
                    creating_an_existing_collection_keeps_documents,
                    dropping_removes_documents_and_indexes,
                ]
                copy: [
                    a_collection_dropped_between_two_attempts_is_dropped_in_the_copy,
                    a_copy_in_the_middle_of_transfers_is_consistent,
                    a_dropped_collection_is_dropped_in_the_copy,
                    a_killed_copy_continues,
                    a_restart_discards_a_state_that_cannot_be_read,
                    a_second_process_ends_the_first,
                    a_target_with_collections_is_refused,
                    a_verbatim_insert_keeps_an_existing_document,
                    a_wrong_target_is_found,
                    an_index_changed_between_two_attempts_is_created_again,
                    documents_of_16_mb_are_copied,
                    every_type_is_copied_byte_for_byte,
                    ids_of_all_types_continue_after_each_id,
                    the_copy_follows_a_writer,
                    the_plan_writes_nothing,
                    unfinished_copies_know_their_source,
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
                    an_order_of_ten_lines_is_few_operations,
                    all_or_nothing_ends_the_transaction,
                    concurrent_orders_never_oversell,
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
                    texts_without_case_and_parts_of_texts,
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
                patches: [
                    a_patch_reads_json,
                    a_patch_sets_the_present_values,
                    an_update_without_values_reads,
                    insert_structs_have_defaults_and_derives,
                    optional_values_are_set,
                ]
                projection: [
                    generated_projections_leave_fields_out,
                    an_index_alone_serves_a_projection,
                    explain_reports_a_scan_and_a_sort,
                    nested_projections_read_their_paths,
                    a_page_also_reads_its_sort_fields,
                ]
                groups: [
                    aggregates_over_other_elements_are_rejected,
                    groups_by_elements_of_arrays,
                    groups_by_time_spans,
                    groups_meet_conditions,
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
                    an_insert_generates_the_id,
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
                reads: [
                    existence_by_id,
                    pages_with_a_total,
                    samples_are_random_documents,
                ]
                schema: [
                    declared_indexes_are_created,
                    different_indexes_are_reported_and_replaced_on_request,
                ]
                scope: [
                    indexes_begin_with_the_scope,
                    a_query_of_a_scope_without_an_index_is_warned_about,
                    all_models_can_be_watched_across_scopes,
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
                sequences: [
                    a_failed_insert_leaves_a_gap,
                    a_number_and_its_field_never_change,
                    a_number_counts_from_one_per_value,
                    concurrent_inserts_get_distinct_numbers,
                    numbers_of_bulks_and_upserts,
                    another_field_selects_other_sequences,
                    numbers_per_scope_after_hooks,
                    older_documents_are_numbered_by_a_repair,
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
                    a_stale_save_with_an_error_type_of_the_application,
                    a_time_limit_aborts,
                    a_time_limit_ends_the_attempts,
                    a_write_outside_the_transaction_is_refused,
                    all_of_300_on_one_document_succeed,
                    all_of_32_on_one_document_succeed,
                    a_transaction_is_atomic,
                    an_application_error_aborts,
                    an_error_type_of_the_application,
                    conflicts_are_retried,
                    conflicts_with_an_error_type_of_the_application_are_retried,
                    writes_are_invisible_before_the_commit,
                ]
                types: [
                    each_type_has_its_stored_form,
                    a_save_of_a_set_keeps_the_other_elements,
                    a_save_writes_only_what_changed,
                    dates_without_a_time_compare_and_sort,
                    durations_are_numbers_of_milliseconds,
                    uuids_are_ids_references_and_values,
                    sets_have_each_value_once,
                    arrays_of_a_fixed_length_keep_it,
                    shared_texts_are_texts,
                    maps_have_keys_of_every_type,
                    ids_of_u64_reach_the_largest_int64,
                ]
                update_requirements: [
                    updates_create_no_places,
                    decimals_can_be_read_again,
                    elements_in_chunk_documents_stay_in_their_range,
                    null_is_a_missing_value,
                    numbers_beside_computed_fields_stay_in_their_range,
                    numbers_stay_in_their_range,
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
                upsert_by: [
                    a_transaction_runs_again_after_a_caseless_duplicate,
                    a_unique_index_can_ignore_case,
                    a_duplicate_of_the_unique_key_runs_the_update_again,
                    a_unique_key_finds_updates_or_inserts,
                    a_unique_key_is_composed_optional_or_the_id,
                    a_unique_key_of_a_scope_and_soft_deletes,
                    an_insert_skips_duplicates,
                    an_insert_with_derived_data_skips_duplicates,
                    an_upsert_needs_a_unique_key_with_values,
                    concurrent_upserts_by_a_unique_key_have_one_insert,
                    upserts_by_a_unique_key_in_transactions,
                    upserts_by_a_unique_key_run_hooks,
                    upserts_with_derived_data_and_numbers,
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
                    one_stream_has_the_changes_of_all_models,
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

#[test]
fn every_test_is_listed() {
    odm_tests::suite::assert_complete(include_str!("suite.rs"), "tests/it/suite");
}
