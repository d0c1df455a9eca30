//! The tests that every backend passes: plain functions that get an empty database.
//!
//! [`for_every_test`] lists them, and a test checks that none is left out.
#![expect(missing_docs, reason = "the name of a test says what it tests")]
#![expect(clippy::missing_panics_doc, reason = "a test panics when it fails")]

pub mod backend;
pub mod typed;

/// Hands the list of all tests to a macro, grouped by the files in `suite/`.
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
                    variables_have_values,
                ]
                changes: [
                    a_collection_or_the_whole_database,
                    a_dropped_watch_disturbs_nobody,
                    a_filter_chooses_events,
                    a_lookup_gives_the_document_of_now,
                    a_time_leads_to_its_events,
                    a_token_leads_on_behind_its_event,
                    a_transaction_is_told_when_it_commits,
                    an_error_ends_it,
                    an_event_of_more_than_16_mb,
                    dropping_a_collection_ends_its_watch,
                    dropping_a_wait_loses_nothing,
                    every_write_is_told,
                    many_watchers_see_the_same,
                    what_is_no_token_is_refused,
                    wrappers_pass_it_on,
                ]
                collection: [
                    a_name_that_is_none_is_refused,
                    a_snapshot_outlives_the_collection,
                    created_listed_and_dropped,
                    creating_leaves_the_documents_of_one_that_exists,
                    dropping_takes_documents_and_indexes_along,
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
                    elements_of_arrays_count,
                    more_values_than_fit_in_a_reply,
                    nothing_has_no_values,
                    numbers_are_one_across_types,
                ]
                find: [
                    a_missing_collection_is_empty,
                    an_unknown_operator_is_unsupported,
                    batches_come_in_order_and_complete,
                    documents_come_back_byte_for_byte,
                    dropping_a_half_read_cursor_is_harmless,
                    dropping_a_wait_for_a_batch_loses_nothing,
                    filter_sort_limit_and_projection,
                    limit_zero_finds_nothing,
                ]
                find_and_modify: [
                    a_transaction_keeps_it_to_itself,
                    an_error_changes_nothing,
                    array_filters_and_positions,
                    before_or_after,
                    deletes_in_order,
                    no_match_gives_nothing_or_inserts,
                    nobody_takes_the_same,
                ]
                find_each: [
                    a_filter_narrows_every_key,
                    a_key_with_a_dollar_is_a_value,
                    arrays_match_by_element,
                    keys_match_across_number_types,
                    more_documents_than_a_batch,
                    no_keys_find_nothing,
                    sort_and_limit_are_per_key,
                ]
                find_several: [
                    a_transaction_sees_its_own_writes,
                    a_wrong_query_is_an_error,
                    each_query_has_its_own,
                    missing_collections_are_empty,
                    more_documents_than_a_batch,
                    values_stay_values,
                ]
                index: [
                    a_missing_collection_has_none,
                    creating_again_changes_nothing,
                    descending_and_compound_unique,
                    different_options_are_refused,
                    dropping,
                    partial_unique_binds_only_its_part,
                    sparse_unique_allows_many_without,
                    specifications_come_back,
                    unique_over_duplicates_is_refused,
                ]
                insert: [
                    a_dropped_insert_is_done_or_not,
                    a_duplicate_array_element_is_named,
                    a_duplicate_id_is_named,
                    a_duplicate_key_is_named,
                    many_documents,
                    none_is_fine,
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
                    a_cursor_goes_on_inside,
                    a_cursor_ends_with_its_transaction,
                    a_read_snapshot_does_not_move,
                    abort_forgets,
                    after_the_end_every_call_fails,
                    an_error_ends_it,
                    commit_shows_all_at_once,
                    dropping_aborts,
                    of_two_overlapping_writers_one_wins,
                    operations_at_once_take_turns,
                    reads_its_own_writes,
                    the_first_to_commit_wins,
                ]
                update: [
                    a_duplicate_key_is_named,
                    a_failure_keeps_what_came_before,
                    a_replacement_is_no_operator,
                    a_replacement_keeps_the_id_alone,
                    an_unknown_operator_is_unsupported,
                    an_upsert_inserts_where_nothing_matches,
                    array_filters_choose_elements,
                    matched_is_not_modified,
                    no_match_changes_nothing,
                    one_or_all,
                    the_id_cannot_change,
                ]
                wrapper: [
                    a_delayed_operation_happens_later,
                    a_fault_after_happens_but_fails,
                    a_fault_before_prevents,
                    a_fault_ends_a_transaction,
                    a_hanging_operation_can_be_dropped,
                    faults_count_what_matches,
                    the_recorder_keeps_order_and_transactions,
                ]
            }
            typed {
                bulk: [
                    a_failure_ends_what_is_in_order,
                    an_array_without_room_fails_alone,
                    an_upsert_inserts_or_updates_in_its_turn,
                    conditions_are_told_one_by_one,
                    in_a_transaction_all_or_nothing,
                    many_writes_are_one_operation,
                    mixed_writes_in_order,
                    unordered_does_all_that_can_be,
                    what_cannot_be_sent_fails_in_its_place,
                    what_the_framework_fills_is_filled,
                ]
                aggregate: [
                    a_pipeline_gives_typed_rows,
                    a_pipeline_writes_nothing,
                    a_transaction_calculates_with_its_writes,
                    distinct_values_and_elements,
                    filter_sort_and_limit_come_first,
                    groups_by_one_field_and_by_several,
                    nothing_has_no_average,
                    null_and_missing_are_one_group,
                    sums_and_averages_have_their_types,
                    the_least_and_the_greatest,
                    what_does_not_fit_is_an_error,
                ]
                check: [
                    a_check_disturbs_nobody_and_nobody_it,
                    a_check_goes_on_where_it_was_left,
                    every_planted_fault_is_found_and_no_other,
                    what_is_right_is_clean,
                ]
                closing: [
                    a_closed_database_refuses_everything,
                    what_was_written_is_there_for_the_next,
                ]
                decode: [
                    ids_stored_as_text_are_refused,
                    uuids_of_older_drivers_are_declared,
                    a_row_of_a_selection_is_named,
                    what_is_calculated_of_a_wrong_type_names_the_path,
                    a_broken_target_spoils_only_its_own,
                    a_missing_field_is_named,
                    a_wrong_type_is_named_and_read_past,
                    the_layout_is_plain,
                    unknown_fields_survive_updates,
                ]
                counts: [
                    a_bulk_is_counted,
                    a_transaction_is_whole,
                    documents_are_counted,
                    many_at_once_are_counted,
                    numbers_of_any_width_meet_conditions,
                    of_which_documents,
                    owners_come_and_go,
                    several_references_count,
                    the_check_finds_what_was_changed_from_outside,
                    the_latest_are_kept,
                    what_becomes_one_of_the_latest_is_as_it_is,
                    what_goes_with_another_is_not_counted,
                    what_is_counted_costs,
                    sums_have_a_range,
                    whole_numbers_are_alike,
                    what_log_lines_cost,
                    what_is_made_of_others_is_not_written,
                    what_says_nothing_right_is_told,
                    wherever_a_write_dies_counts_are_exact,
                ]
                computed: [
                    a_conflict_of_operators_is_refused_as_one,
                    keys_of_digits_are_keys,
                    a_check_finds_and_a_repair_computes,
                    a_reader_sees_what_is_right,
                    a_save_computes_and_changes_nothing_computed,
                    a_translated_update_does_what_its_operators_do,
                    an_insert_computes,
                    an_upgrade_computes,
                    every_update_computes,
                    here_and_there_the_same_comes_out,
                    it_costs_no_further_operation,
                    it_works_with_what_is_taken_of_others,
                    upserts_bulks_and_updates_of_many_compute,
                    values_are_literal,
                    what_cannot_be_computed_is_not_written,
                    what_no_pipeline_says_is_a_transaction,
                ]
                copies: [
                    a_bulk_fills_and_follows,
                    a_chain_follows,
                    a_source_is_only_read,
                    a_transaction_is_whole,
                    an_insert_that_ends_early,
                    copies_are_filled_at_insert,
                    copies_follow_their_source,
                    copies_in_arrays_follow,
                    copies_in_arrays_of_arrays_follow,
                    how_far_behind_copies_are,
                    many_dependents_follow_behind,
                    references_that_change_bring_other_copies,
                    snapshots_stay,
                    the_check_finds_what_was_changed_from_outside,
                    the_indexes_are_declared,
                    what_cannot_be_copied_is_refused,
                    what_is_gone,
                    what_is_to_be_cleared,
                    wherever_a_write_dies_copies_converge,
                    whoever_comes_second_sees_the_first,
                ]
                deletions: [
                    a_delete_that_tries_again_leaves_no_tombstone,
                    a_variant_that_is_referred_to_stays_one,
                    all_that_can_be_is_settled,
                    many_at_once_leave_nothing_dangling,
                    what_goes_with_it_keeps_nothing,
                    what_others_are_derived_from_does_not_expire,
                    what_is_referred_to_does_not_expire,
                    what_may_stay_can_be_referred_to,
                    what_stays_keeps_all_of_it,
                    what_is_below_keeps_what_is_above,
                    what_was_begun_with_links_of_before_is_cleared,
                    wherever_a_deletion_dies_nothing_dangles,
                ]
                edit: [
                    a_field_that_breaks_a_rule_blocks_no_other,
                    a_conflict_in_a_transaction_runs_it_again,
                    a_default_is_stored,
                    a_deleted_document_stays_deleted,
                    edits_work_in_transactions,
                    modify_ends,
                    modify_loses_nothing,
                    nothing_is_written_over_another_change,
                    only_what_changed_is_saved,
                    savers_of_different_fields,
                    what_cannot_be_saved_is_refused,
                    what_others_changed_stays,
                ]
                elements: [
                    a_condition_is_sent_once,
                    concurrent_pushes_keep_the_best,
                    elements_stay_within_their_max,
                    matching_elements_are_updated,
                    nested_arrays_and_several_conditions,
                    pushes_have_a_position_an_order_and_a_slice,
                    the_first_element_is_updated,
                    a_missing_place_is_told_from_a_missing_document,
                    what_first_cannot_say_is_an_error,
                ]
                enums: [
                    a_save_mixes_no_variants,
                    a_variant_is_asked_for,
                    an_unknown_variant_is_named,
                    an_update_in_a_variant_is_conditional,
                    updates_at_once_mix_no_variants,
                ]
                expression: [
                    dates_and_texts_are_compared,
                    elements_by_index_are_compared,
                    missing_and_null_have_an_order,
                    numbers_are_computed,
                    values_in_expressions_stay_values,
                ]
                filled: [
                    a_stale_save_is_a_conflict,
                    an_insert_fills,
                    every_update_counts,
                    modify_tries_again,
                    the_framework_alone_fills,
                ]
                filter: [
                    an_optional_filter_asks_nothing,
                    and_or_not,
                    any_element,
                    comparisons,
                    maps_by_key,
                    missing_null_and_exists,
                    patterns_of_any_text_match_that_text_alone,
                    prefixes_and_patterns,
                    the_same_element,
                    what_cannot_be_said_is_an_error,
                ]
                find: [
                    a_projection_reads_its_fields,
                    a_stream_gives_all_in_order,
                    by_id_and_by_ids,
                    count_and_exists,
                    one_and_first,
                    sort_and_limit,
                ]
                kinds: [
                    a_document_becomes_another_variant_as_a_whole,
                    a_document_of_no_variant_is_an_error_in_its_row,
                    a_save_writes_what_changed_in_its_variant,
                    a_variant_is_stored_as_its_enum_is,
                    all_variants_are_written_by_what_they_share,
                    documents_are_found_together_and_alone,
                    indexes_of_a_variant_are_over_its_documents,
                    pages_are_of_one_variant_or_of_all,
                    references_lead_to_one_variant_or_to_any,
                    what_the_framework_fills_is_filled_in_every_variant,
                    writes_of_a_variant_leave_the_others_alone,
                ]
                link_reports: [
                    a_reference_moves_twice_in_one_transaction,
                    an_update_of_a_reference_tells_whether_it_has_changed_anything,
                ]
                links: [
                    a_cascade_takes_the_whole_tree,
                    a_deletion_does_what_the_references_say,
                    a_save_and_a_bulk_keep_both_sides,
                    an_insert_enters_the_other_side,
                    an_update_moves_and_unlinks,
                    many_at_once_leave_both_sides_right,
                    the_check_finds_the_side_that_is_missing,
                    what_fails_in_a_transaction_ends_it,
                    what_leads_nowhere_or_to_a_full_list_is_refused,
                    wherever_a_write_dies_both_sides_agree,
                ]
                native: [
                    timestamps_stand_beside_derived_fields,
                    a_save_sees_no_change_where_there_is_none,
                    a_save_that_rounds_forgets_no_elements,
                    filters_and_updates_speak_of_what_is_stored,
                    an_upsert_gives_back_what_is_stored,
                    they_are_stored_as_bsons_own,
                    what_a_type_cannot_hold_is_an_error,
                ]
                nested_references: [
                    a_deletion_does_what_the_references_say,
                    a_promise_is_found_by_what_it_wants,
                    an_upgrade_enters_what_it_refers_to,
                    many_at_once_leave_nothing_dangling,
                    the_index_is_declared,
                    what_dangles_is_found_and_mended,
                    what_is_missing_on_the_way_is_left_alone,
                    what_is_renamed_leads_somewhere,
                    what_leads_nowhere_is_refused,
                    wherever_a_write_dies_nothing_dangles,
                ]
                outcome: [
                    a_condition_gives_an_outcome,
                    a_deleted_document_is_given_back,
                    a_transaction_takes_the_same,
                    an_array_without_room_is_an_error,
                    concurrent_spenders,
                    concurrent_voters,
                    nobody_takes_the_same_job,
                    the_document_before_or_after,
                    the_first_in_order,
                    what_cannot_be_read_was_written,
                    what_the_framework_fills_is_filled,
                ]
                overflow: [
                    a_deletion_reads_no_elements,
                    a_projection_knows_whether_there_is_more,
                    a_push_is_part_of_its_update,
                    a_transaction_is_whole,
                    all_elements_are_read,
                    an_array_is_replaced,
                    an_edited_document_leaves_the_array_alone,
                    documents_are_found_by_an_element_wherever_it_is,
                    documents_take_their_elements_along,
                    elements_are_pulled_wherever_they_are,
                    elements_change_wherever_they_are,
                    pushes_overflow,
                    the_layout_is_that_of_the_manual,
                    what_is_out_of_sight_stays_there,
                    what_is_read_and_written_costs,
                ]
                overflow_beside: [
                    a_bound_inside_of_elements_is_kept,
                    a_filter_and_the_document_agree_on_whether_there_is_more,
                    a_save_leaves_the_elements,
                    a_write_is_one_version,
                    changes_are_told_of_the_document,
                    hooks_see_all_that_is_inserted,
                    joins_lead_to_all_of_it,
                    what_was_read_in_part_is_not_written,
                ]
                overflow_faults: [
                    a_change_that_is_refused_is_over,
                    many_at_once_lose_nothing,
                    the_check_finds_what_was_changed_from_outside,
                    wherever_a_write_dies_nothing_is_lost,
                    wherever_mending_dies_nothing_is_lost,
                    a_transaction_begins_anew_for_what_is_written_anew,
                    a_write_waits_for_what_is_written_anew,
                    what_leads_to_what_is_written_anew_is_saved_or_an_error,
                    what_was_pulled_before_a_refusal_is_counted,
                ]
                overflow_jobs: [
                    a_proposal_has_bounds,
                    arrays_are_folded_in_the_background,
                    arrays_go_back_to_their_documents,
                    what_has_no_room_in_a_document_does_not_go_back,
                    bytes_count_as_elements_do,
                    the_largest_documents_of_before_overflow,
                    arrays_of_before_are_of_any_kind,
                    documents_of_before_overflow,
                    elements_come_back_where_they_fit,
                    empty_documents_outside_go,
                    one_that_fails_keeps_nothing_from_the_others,
                ]
                overflow_links: [
                    an_inverse_overflows,
                    deletions_ask_what_is_outside,
                    it_follows_whatever_is_written,
                    joins_reach_what_is_outside,
                    joins_want_no_more_than_their_limit,
                    many_at_once_leave_both_sides_right,
                    many_leave_some_at_a_time,
                    references_without_a_rule_overflow,
                    the_check_looks_outside,
                    what_a_link_to_an_outlier_costs,
                    what_leads_nowhere_is_refused,
                    what_was_there_overflows_and_comes_back,
                    wherever_a_write_dies_both_sides_agree,
                ]
                overflow_order: [
                    it_is_as_if_all_were_sorted,
                    many_at_once_stay_in_order,
                    the_first_are_in_the_document,
                    the_latest_are_in_the_document,
                    the_order_does_not_change_in_place,
                    what_bytes_keep_outside_stays_there,
                    what_a_push_among_others_costs,
                    what_was_there_is_brought_into_order,
                    wherever_a_push_dies_the_order_stays,
                ]
                overflow_rules: [
                    a_deletion_is_refused_wherever_it_is,
                    a_deletion_pulls_it_wherever_it_is,
                    a_deletion_takes_along_what_refers_to_it,
                    a_rule_holds_for_what_was_there,
                    many_at_once_refer_to_nobody_who_is_gone,
                    very_many_go_together_or_stay,
                    rules_hold_in_transactions,
                    the_check_finds_who_is_missing_outside,
                    their_indexes_are_declared_once,
                    those_that_come_together_refer_to_one_another,
                    very_many_have_to_be_there,
                    what_a_push_of_such_a_reference_costs,
                    what_is_referred_to_has_to_be_there,
                    wherever_a_write_dies_nobody_is_missed,
                ]
                overflow_sets: [
                    elements_are_the_same_as_the_server_compares_them,
                    many_add_the_same_to_a_set,
                    many_are_added_to_a_set,
                    more_than_a_request_holds_is_added_once,
                    sets_are_over_both_parts,
                    what_has_nothing_outside_yet_gets_more_than_a_tail,
                ]
                overflow_sides: [
                    documents_come_and_go_with_both_sides,
                    joins_go_both_ways,
                    many_at_once_agree,
                    random_writes_leave_what_they_say,
                    the_check_finds_where_they_disagree,
                    the_other_side_follows_whatever_is_written,
                    transactions_keep_both_sides,
                    two_arrays_agree_with_what_is_out_of_sight,
                    what_a_push_to_both_sides_costs,
                    what_cannot_be_entered_is_not_written,
                    what_was_there_keeps_its_other_side,
                    wherever_a_write_dies_both_sides_agree,
                ]
                overflow_sizes: [
                    a_pull_of_too_much_is_refused,
                    documents_stay_small,
                    documents_are_small_at_any_moment,
                    elements_that_grow_stay_small,
                    the_largest_elements_are_pushed,
                    very_many_long_references_are_taken_out_by_parts,
                    many_with_long_ids_leave_by_parts,
                    long_references_on_their_way_back_follow,
                    round_trips_do_not_grow_with_the_array,
                    long_conditions_of_changes_are_refused,
                    two_arrays_share_the_room,
                ]
                overflow_snapshots: [
                    drift_is_found_outside_too,
                    nothing_is_written_without_a_snapshot,
                    snapshots_are_taken_wherever_elements_go,
                    the_dearest_are_in_the_document,
                    what_others_do_beside_it_is_filled_too,
                    what_snapshots_of_elements_cost,
                    wherever_a_write_dies_elements_have_their_snapshots,
                ]
                overflow_together: [
                    all_of_them_grow_by_the_same_updates,
                    many_at_once_leave_the_same_in_each,
                    they_are_part_of_larger_writes,
                    what_one_refuses_happens_to_none,
                    what_several_cost,
                    whatever_happens_to_each_happens_together,
                    wherever_a_write_dies_each_has_the_same,
                ]
                overflow_versions: [
                    a_new_name_loses_no_elements,
                    an_upgrade_leaves_what_is_no_number,
                    many_that_have_room_are_added_inside,
                    what_an_upgrade_does_to_elements_is_an_error,
                    what_an_upgrade_forgets_is_an_error,
                    what_does_not_overflow_yet_is_measured,
                ]
                page: [
                    a_document_that_has_no_place_is_an_error,
                    a_forged_token_stays_a_value,
                    a_page_in_a_transaction,
                    a_token_goes_with_its_query,
                    an_id_of_any_type,
                    depth_costs_nothing,
                    every_kind_of_value_has_its_place,
                    joins_and_projections_have_pages,
                    pages_beside_writers,
                    pages_of_every_size_are_the_list,
                    what_comes_and_goes_shifts_nobody,
                ]
                projection: [
                    an_index_alone_serves_a_projection,
                    explain_tells_a_scan_and_a_sort,
                    nested_projections_read_their_paths,
                    what_a_page_needs_is_read_too,
                ]
                following: [
                    a_process_that_dies_at_it_leaves_it_to_others,
                    a_read_may_ask_for_what_is_so_now,
                    a_worker_carries_out_what_others_left,
                    an_equal_value_follows_nowhere,
                    another_declaration_is_noticed,
                    how_far_a_fan_out_is,
                    one_process_at_a_time_sees_to_it,
                    very_many_follow_in_batches,
                    copies_of_copies_cost_the_same_however_many,
                    what_copies_cost,
                ]
                hooks: [
                    a_dropped_write_is_done_with_its_hooks_or_not,
                    a_hook_that_fails_takes_all_back,
                    a_model_without_hooks_pays_nothing,
                    a_save_runs_its_hooks,
                    a_transaction_has_the_hooks_inside,
                    an_insert_runs_its_hooks,
                    circles_end,
                    conflicts_are_tried_again,
                    every_delete_runs_its_hooks,
                    every_update_runs_its_hooks,
                    what_follows_a_commit_cannot_undo_it,
                ]
                hooks_narrowed: [
                    a_delete_by_a_mark_runs_the_hooks,
                    hooks_stay_in_the_scope_of_the_write,
                    older_documents_have_their_hooks,
                    rules_look_at_nobody_elses_documents,
                    the_outcome_of_a_restore_is_checked,
                ]
                ids: [
                    a_hook_may_change_a_part,
                    a_part_never_changes,
                    a_transaction_loads_what_it_wrote,
                    an_id_is_made_of_its_parts,
                    an_upgrade_keeps_the_parts,
                    an_upsert_knows_its_id,
                    children_are_a_range_of_ids,
                    new_counters_at_once,
                    no_two_parts_make_one_id,
                    numbers_are_given_once,
                    numbers_go_on_behind_what_is_there,
                    numbers_in_transactions_and_bulks,
                    parts_of_every_type_come_back,
                    scopes_and_marks_narrow_them,
                    several_models_are_one_round_trip,
                    what_makes_no_id_is_refused,
                ]
                index_sync: [
                    a_replaced_index_is_built_first,
                    a_replacement_that_was_cut_off_is_finished,
                    a_rule_and_an_index_on_one_field,
                    another_expiry_builds_no_index,
                    another_index_has_the_name,
                    expiry_ends_when_told,
                    one_that_fails_keeps_no_other_away,
                    unique_among_those_with_a_value,
                ]
                injection: [
                    json_bodies,
                    keys_of_maps,
                    patterns_are_patterns,
                    regular_expressions_as_values,
                    texts_in_filters,
                    texts_in_updates,
                ]
                places: [
                    every_place_can_be_asked_for,
                    every_place_can_be_changed,
                    every_place_can_be_read_alone,
                    values_are_renamed,
                    what_is_one_place_can_be_ordered_by,
                ]
                polymorphic: [
                    a_reference_in_a_variant,
                    an_enum_of_documents,
                    an_enum_of_references,
                    children_by_a_reference_in_a_variant,
                    in_a_transaction,
                    one_query_for_each_edge_and_level,
                    only_what_is_needed_is_read,
                    streams_and_pages,
                    variants_in_an_array,
                    what_does_not_fit_is_told,
                ]
                references: [
                    a_deletion_does_what_the_references_say,
                    a_dry_run_says_what_would_go,
                    a_large_cascade_ends,
                    each_takes_another_first,
                    many_at_once_leave_nothing_dangling,
                    of_other_scopes_and_behind_marks,
                    the_index_is_declared,
                    what_leads_nowhere_is_refused,
                    what_may_be_taken_back_is_not_referred_to,
                    wherever_a_write_dies_nothing_dangles,
                ]
                rejections: [
                    a_document_without_room_is_named,
                    a_parent_without_room_is_named,
                    a_parent_without_room_stops_no_other,
                    a_parent_without_room_stops_no_recount,
                    a_referrer_that_keeps_its_reference_is_named,
                    a_rejected_copy_of_a_copy_is_owed_by_that,
                    a_rejected_copy_stops_no_batch,
                    a_rejected_copy_stops_no_other,
                    a_rejected_copy_stops_no_revalidation,
                ]
                relation: [
                    a_failed_query_names_its_model,
                    a_join_in_an_order,
                    a_join_with_a_condition,
                    a_projection_can_be_joined,
                    a_stream_is_joined_batch_by_batch,
                    an_array_of_references,
                    an_optional_reference,
                    children_of_many_to_many,
                    children_of_what_is_joined,
                    ids_match_across_number_types,
                    long_ids_are_asked_for_in_batches,
                    several_and_nested,
                    the_children_of_many_parents,
                    the_children_of_one_parent,
                    the_number_of_queries_is_fixed,
                ]
                repair: [
                    it_may_run_while_the_application_writes,
                    it_mends_the_faults_that_were_planted_and_only_those,
                    nothing_is_written_unless_it_is_told_to,
                ]
                round_trips: [
                    the_table_is_true,
                ]
                schema: [
                    declared_indexes_are_created,
                    what_differs_is_reported_and_replaced_when_told,
                ]
                scope: [
                    all_scopes_are_watched_together,
                    a_join_stays_in_the_scope,
                    a_page_walks_in_its_scope,
                    a_token_stays_in_its_scope,
                    a_transaction_in_a_scope,
                    across_all_scopes,
                    no_entry_reaches_another_tenants,
                    scopes_of_several_types,
                    several_scopes_in_one_bulk,
                    tenants_write_at_the_same_time,
                    what_is_inserted_is_of_the_scope,
                ]
                shard_key: [
                    a_scope_says_the_shard,
                    an_id_that_says_the_shard_is_enough,
                    another_key_is_another_document,
                    every_write_says_the_shard,
                    the_first_is_on_one_shard,
                    the_index_is_there_and_no_cluster_is,
                    the_key_never_changes,
                    what_the_framework_does_around_a_write_says_it_too,
                ]
                snapshots: [
                    drift_costs_one_query_for_each_source,
                    drift_is_found,
                    it_remembers_where_it_is_from,
                    what_remembered_nothing_is_compared_by_its_reference,
                    where_it_is_from_stays,
                ]
                soft_delete: [
                    a_delete_sets_a_mark,
                    a_deleted_document_keeps_its_id_alone,
                    a_mark_is_one_operation,
                    a_permanent_delete_is_one,
                    a_transaction_takes_a_delete_back,
                    another_name_and_another_date,
                    deletes_and_restores_are_changes_of_their_own,
                    deletes_in_a_bulk,
                    deletes_of_several,
                    no_entry_reaches_what_is_deleted,
                    of_many_deletes_one_counts,
                    what_is_deleted_can_be_read,
                    what_is_deleted_can_be_restored,
                ]
                stored_forms: [
                    a_copy_of_none_is_as_if_inserted_with_none,
                    a_missing_field_is_what_it_reads_as,
                    none_is_stored_as_an_insert_stores_it,
                    what_is_nullified_is_as_if_inserted_without,
                ]
                tenants: [
                    a_parent_that_comes_later_has_the_children_of_its_scope,
                    arrays_are_those_of_the_scope,
                    children_are_counted_in_their_scope,
                    copies_follow_sources_of_their_scope,
                    pipelines_read_what_is_in_sight,
                    references_lead_into_their_scope,
                    writes_that_die_stay_in_their_scope,
                ]
                time_limits: [
                    a_session_limits_every_read,
                    a_timeout_names_the_operation,
                    joins_share_the_limit,
                    writes_are_not_limited,
                ]
                trace: [
                    a_look_at_plans_disturbs_no_transaction,
                    a_scan_is_warned_of_where_plans_are_asked_for,
                    an_array_near_its_bound_is_warned_of,
                    an_operation_is_one_span,
                    every_write_and_pipeline_tells_its_plan,
                    one_query_for_each_document_is_warned_of,
                ]
                transaction: [
                    a_conflict_that_stays_is_told_soon,
                    a_dropped_transaction_is_aborted,
                    a_kept_handle_is_over,
                    a_time_limit_aborts,
                    a_time_limit_ends_the_attempts,
                    a_write_beside_it_is_refused,
                    all_of_300_on_one_document_succeed,
                    all_of_32_on_one_document_succeed,
                    all_or_nothing,
                    an_own_error_aborts,
                    conflicts_are_tried_again,
                    others_see_nothing_before_the_commit,
                ]
                update_requirements: [
                    an_update_makes_no_place,
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
                    a_write_to_many_sees_todays_form,
                    a_write_upgrades_its_document_first,
                    reads_upgrade_what_they_get,
                    what_cannot_be_upgraded_is_an_error_in_its_place,
                    what_is_rounded_is_not_upgraded,
                ]
                upsert: [
                    a_condition_is_not_a_missing_document,
                    a_duplicate_in_a_transaction_is_a_conflict,
                    another_unique_key_is_a_duplicate,
                    concurrent_upserts_have_one_insert,
                    concurrent_upserts_in_transactions,
                    one_of_both_happens,
                    the_document_is_given_back,
                    what_cannot_be_is_refused,
                    what_the_framework_fills_is_filled,
                ]
                validation: [
                    an_error_has_everything,
                    an_outcome_is_checked_and_taken_back,
                    concurrent_updates_stay_within_the_rules,
                    elements_keep_to_their_rules_wherever_they_are,
                    nothing_wrong_leaves_a_transaction,
                    what_an_update_sets_is_checked_without_asking,
                    what_was_wrong_before_is_not_the_updates_fault,
                    whole_documents_are_checked,
                ]
                variants: [
                    elements_of_a_variant_are_updated,
                    every_write_inside_of_a_variant_is_conditional,
                    values_of_other_crates_stand_in_variants,
                    variants_are_read_in_rows_and_pages,
                    what_a_variant_cannot_say_is_an_error,
                ]
                watch: [
                    a_broken_document_is_an_error_in_its_place,
                    a_condition_chooses_documents,
                    a_dropped_wait_loses_nothing,
                    a_time_leads_to_its_changes,
                    a_token_leads_on_behind_its_change,
                    a_token_of_nothing_is_an_error,
                    the_end_of_a_collection_is_the_end,
                    what_happens_to_documents_is_told_in_order,
                ]
                without_runtime: [
                    reads_and_writes_work,
                    transactions_and_changes_work,
                ]
                write: [
                    a_condition_decides_in_the_same_step,
                    a_dropped_write_is_finished,
                    a_duplicate_key_is_typed,
                    a_lost_answer_is_told,
                    an_array_stays_within_its_max,
                    arrays_are_changed,
                    concurrent_inserts_of_one_key_have_one_winner,
                    concurrent_pushes_stay_within_the_max,
                    delete_one_and_many,
                    fields_are_set_and_unset,
                    insert_gives_the_document_back,
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

    /// A function that is not in the list would never run.
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
