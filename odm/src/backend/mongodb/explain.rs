//! Explanation of queries.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Bson, Document, doc},
};

use super::{
    error, read_options::to_driver_preference, to_driver_document, to_driver_limit,
    to_driver_max_time,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Explain, FindOperation},
};

/// Executes a query, and returns the plan: [`Executor::explain`](crate::backend::Executor::explain).
pub(super) async fn explain_query(
    database: &Database,
    find: FindOperation,
    session: &mut ClientSession,
) -> Result<Explain> {
    if find.limit == Some(0) {
        return Ok(Explain::default());
    }
    let mut command =
        doc! { "find": &*find.collection, "filter": to_driver_document(&find.filter)? };
    if let Some(projection) = &find.projection {
        command.insert("projection", to_driver_document(projection)?);
    }
    if let Some(sort) = &find.sort {
        command.insert("sort", to_driver_document(sort)?);
    }
    if let Some(n) = find.limit {
        command.insert("limit", to_driver_limit(n));
    }
    if let Some(name) = &find.options.hint {
        command.insert("hint", name);
    }
    if let Some(comment) = &find.options.comment {
        command.insert("comment", comment);
    }
    let mut command = doc! { "explain": command, "verbosity": "executionStats" };
    if let Some(max_time) = find.options.max_time {
        let milliseconds = to_driver_max_time(max_time).as_millis();
        command.insert("maxTimeMS", i32::try_from(milliseconds).unwrap_or(i32::MAX));
    }
    let preference = find.options.read_preference.map(to_driver_preference);
    let reads = preference.or_else(|| database.selection_criteria().cloned());
    let answer = database
        .run_command(command)
        .optional(reads, |action, reads| action.selection_criteria(reads))
        .session(session)
        .await;
    let explained = answer
        .map_err(error::from_driver)
        .and_then(|answer| parse_explain_output(&answer));
    explained.map_err(|error| error.with_collection(find.collection))
}

fn parse_explain_output(answer: &Document) -> Result<Explain> {
    let stats = answer.get_document("executionStats");
    let stats = stats.map_err(|error| missing_statistics().with_source(error))?;
    // The server also explains a failed execution, for example after the time limit. Return the failure as an error.
    if stats
        .get_bool("executionSuccess")
        .is_ok_and(|success| !success)
    {
        let code = stats.get_i32("errorCode").unwrap_or_default();
        let message = stats.get_str("errorMessage").unwrap_or_default();
        return Err(error::from_server_code(code, message, None));
    }
    let count = |name| {
        let count = stats.get(name).and_then(|count| match count {
            Bson::Int32(count) => u64::try_from(*count).ok(),
            Bson::Int64(count) => u64::try_from(*count).ok(),
            _ => None,
        });
        count.ok_or_else(missing_statistics)
    };
    let mut explain = Explain {
        keys_examined: count("totalKeysExamined")?,
        documents_examined: count("totalDocsExamined")?,
        returned: count("nReturned")?,
        ..Explain::default()
    };
    if let Ok(planner) = answer.get_document("queryPlanner") {
        winning_plans(planner, &mut explain);
    }
    Ok(explain)
}

fn missing_statistics() -> Error {
    Error::new(
        ErrorKind::Backend,
        "MongoDB's explain output has no execution statistics",
    )
}

/// Collects the winning plans, one for each shard.
fn winning_plans(planner: &Document, explain: &mut Explain) {
    for (name, value) in planner {
        match value {
            // The slot-based engine puts the classic form of the plan in `queryPlan`, beside its own form.
            Bson::Document(plan) if name == "winningPlan" => {
                collect_stages(plan.get_document("queryPlan").unwrap_or(plan), explain);
            }
            _ if name == "rejectedPlans" => {}
            value => visit_documents(value, &mut |inner| winning_plans(inner, explain)),
        }
    }
}

fn collect_stages(stage: &Document, explain: &mut Explain) {
    let name = stage.get_str("stage").unwrap_or_default();
    explain.is_collection_scan |= name == "COLLSCAN";
    explain.is_sorted_in_memory |= name == "SORT";
    let index = match name {
        "IDHACK" => Some("_id_"),
        _ => stage.get_str("indexName").ok(),
    };
    if let Some(index) = index
        && !explain.indexes.iter().any(|known| known == index)
    {
        explain.indexes.push(index.to_owned());
    }
    if name == "SHARD_MERGE" || name == "SHARD_MERGE_SORT" || name == "SINGLE_SHARD" {
        winning_plans(stage, explain);
        return;
    }
    for (name, value) in stage {
        if matches!(
            name.as_str(),
            "inputStage" | "inputStages" | "thenStage" | "elseStage" | "outerStage" | "innerStage"
        ) {
            visit_documents(value, &mut |inner| collect_stages(inner, explain));
        }
    }
}

fn visit_documents(value: &Bson, visit: &mut impl FnMut(&Document)) {
    match value {
        Bson::Document(document) => visit(document),
        Bson::Array(values) => values.iter().for_each(|value| {
            if let Bson::Document(document) = value {
                visit(document);
            }
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_of_a_missing_collection_uses_no_index() {
        let answer = doc! {
            "queryPlanner": { "winningPlan": { "stage": "EOF" }, "rejectedPlans": [{ "stage": "COLLSCAN" }] },
            "executionStats": { "totalKeysExamined": 0, "totalDocsExamined": 0_i64, "nReturned": 0 },
        };
        assert_eq!(parse_explain_output(&answer).unwrap(), Explain::default());
    }

    #[test]
    fn plans_of_shards_name_their_index() {
        let scan = doc! { "stage": "SORT", "inputStage": { "stage": "COLLSCAN" } };
        let index =
            doc! { "stage": "FETCH", "inputStage": { "stage": "IXSCAN", "indexName": "a_1" } };
        let answer = doc! {
            "queryPlanner": { "winningPlan": { "stage": "SHARD_MERGE_SORT", "shards": [
                { "winningPlan": scan }, { "winningPlan": { "queryPlan": index, "slotBasedPlan": {} } },
            ] } },
            "executionStats": { "totalKeysExamined": 2, "totalDocsExamined": 3, "nReturned": 1 },
        };
        let explain = parse_explain_output(&answer).unwrap();
        assert_eq!(explain.indexes, ["a_1"]);
        assert!(explain.is_collection_scan && explain.is_sorted_in_memory);
        assert_eq!(
            (
                explain.keys_examined,
                explain.documents_examined,
                explain.returned
            ),
            (2, 3, 1)
        );
    }
}
