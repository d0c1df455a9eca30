//! The error type of a transaction must be made from an error of the database: a commit can fail.
#[path = "../banks.rs"]
mod banks;

use banks::*;

#[derive(Debug)]
enum ApiError {
    TooPoor,
}

async fn pays(db: Db) -> Result<(), ApiError> {
    db.transaction(async |tx| {
        match tx.find_by_id::<User>("users/jane").await {
            Ok(Some(_)) => Ok(()),
            _ => Err(ApiError::TooPoor),
        }
    })
    .await
}

async fn uses_question_marks(db: Db) -> Result<(), ApiError> {
    db.transaction(async |tx| {
        let user = tx.get::<User>("users/jane").await?;
        if user.karma < 3 {
            return Err(ApiError::TooPoor);
        }
        Ok(())
    })
    .await
}

fn main() {}
