//! How the server finds documents.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Bson, Document, doc},
};

use super::{decode, error, limit, milliseconds};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Explain, Find},
};

/// See [`Executor::explain`](crate::backend::Executor::explain).
pub(super) async fn explain(
    database: &Database,
    find: Find,
    session: &mut ClientSession,
) -> Result<Explain> {
    if find.limit == Some(0) {
        return Ok(Explain::default());
    }
    let mut command = doc! { "find": &*find.collection, "filter": decode(&find.filter)? };
    if let Some(projection) = &find.projection {
        command.insert("projection", decode(projection)?);
    }
    if let Some(sort) = &find.sort {
        command.insert("sort", decode(sort)?);
    }
    if let Some(n) = find.limit {
        command.insert("limit", limit(n));
    }
    let mut command = doc! { "explain": command, "verbosity": "executionStats" };
    if let Some(max_time) = find.max_time {
        let milliseconds = milliseconds(max_time).as_millis();
        command.insert("maxTimeMS", i32::try_from(milliseconds).unwrap_or(i32::MAX));
    }
    let reads = database.selection_criteria().cloned();
    let answer = database
        .run_command(command)
        .optional(reads, |action, reads| action.selection_criteria(reads))
        .session(session)
        .await;
    let explained = answer
        .map_err(error::from_driver)
        .and_then(|answer| read(&answer));
    explained.map_err(|error| error.with_collection(find.collection))
}

fn read(answer: &Document) -> Result<Explain> {
    let stats = answer.get_document("executionStats");
    let stats = stats.map_err(|error| strange().with_source(error))?;
    // An execution that failed, by its time limit too, is part of the explanation.
    if stats
        .get_bool("executionSuccess")
        .is_ok_and(|success| !success)
    {
        let code = stats.get_i32("errorCode").unwrap_or_default();
        let message = stats.get_str("errorMessage").unwrap_or_default();
        return Err(error::server(code, message, None));
    }
    let count = |name| {
        let count = stats.get(name).and_then(|count| match count {
            Bson::Int32(count) => u64::try_from(*count).ok(),
            Bson::Int64(count) => u64::try_from(*count).ok(),
            _ => None,
        });
        count.ok_or_else(strange)
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

fn strange() -> Error {
    Error::new(
        ErrorKind::Backend,
        "the server's explanation has no statistics of the execution",
    )
}

/// The plans that won, one for each shard.
fn winning_plans(planner: &Document, explain: &mut Explain) {
    for (name, value) in planner {
        match value {
            // The plan of the new execution engine stands beside its own form.
            Bson::Document(plan) if name == "winningPlan" => {
                stages(plan.get_document("queryPlan").unwrap_or(plan), explain);
            }
            _ if name == "rejectedPlans" => {}
            value => documents(value, &mut |inner| winning_plans(inner, explain)),
        }
    }
}

fn stages(stage: &Document, explain: &mut Explain) {
    let name = stage.get_str("stage").unwrap_or_default();
    explain.is_scan |= name == "COLLSCAN";
    explain.is_sorted_afterwards |= name == "SORT";
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
            documents(value, &mut |inner| stages(inner, explain));
        }
    }
}

fn documents(value: &Bson, visit: &mut impl FnMut(&Document)) {
    match value {
        Bson::Document(document) => visit(document),
        Bson::Array(all) => all.iter().for_each(|value| {
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
    fn a_missing_collection_is_read_by_no_index() {
        let answer = doc! {
            "queryPlanner": { "winningPlan": { "stage": "EOF" }, "rejectedPlans": [{ "stage": "COLLSCAN" }] },
            "executionStats": { "totalKeysExamined": 0, "totalDocsExamined": 0_i64, "nReturned": 0 },
        };
        assert_eq!(read(&answer).unwrap(), Explain::default());
    }

    #[test]
    fn plans_of_shards_are_read_too() {
        let scan = doc! { "stage": "SORT", "inputStage": { "stage": "COLLSCAN" } };
        let index =
            doc! { "stage": "FETCH", "inputStage": { "stage": "IXSCAN", "indexName": "a_1" } };
        let answer = doc! {
            "queryPlanner": { "winningPlan": { "stage": "SHARD_MERGE_SORT", "shards": [
                { "winningPlan": scan }, { "winningPlan": { "queryPlan": index, "slotBasedPlan": {} } },
            ] } },
            "executionStats": { "totalKeysExamined": 2, "totalDocsExamined": 3, "nReturned": 1 },
        };
        let explain = read(&answer).unwrap();
        assert_eq!(explain.indexes, ["a_1"]);
        assert!(explain.is_scan && explain.is_sorted_afterwards);
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
