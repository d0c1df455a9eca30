// A session of mongosh with the helpers of the shell. Prints one line for each call, which `run` compares with the lines of a real
// server.

const volatile = ['$clusterTime', 'operationTime', 'electionId', 'opTime', 'serverInfo', 'connectionId', 'uuid', 'info'];

function clean(value) {
  if (Array.isArray(value)) return value.map(clean);
  if (value === null || typeof value !== 'object' || value._bsontype || value instanceof Date) return value;
  const entries = Object.entries(value).filter(([name]) => !volatile.includes(name));
  return Object.fromEntries(entries.map(([name, inner]) => [name, clean(inner)]));
}

let step = 0;
function show(call) {
  step += 1;
  const text = call.toString().replace(/^\(\) => /, '');
  let result;
  try {
    result = EJSON.stringify(clean(call()));
  } catch (error) {
    result = `error ${error.code} ${error.codeName}`;
  }
  print(`${step} ${text} = ${result}`);
}

const shop = db.getSiblingDB('odm_clients_mongosh');
shop.dropDatabase();
show(() => db.hello().isWritablePrimary);
show(() => db.adminCommand({ ping: 1 }));
show(() => db.version());
show(() => shop.createCollection('parts'));
show(() => shop.createCollection('parts'));
show(() => shop.parts.insertOne({ _id: 1, name: 'wheel', price: 5 }));
show(() => shop.parts.insertMany([{ _id: 2, name: 'axle', price: 9 }, { _id: 3, name: 'nut', price: NumberDecimal('0.10') }]));
show(() => shop.parts.insertOne({ _id: 1 }));
show(() => shop.parts.insertMany([{ _id: 4 }, { _id: 1 }, { _id: 5 }], { ordered: false }));
show(() => shop.parts.find().sort({ _id: 1 }).toArray());
show(() => shop.parts.find({ price: { $gt: 4 } }, { name: 1, _id: 0 }).sort({ name: 1 }).toArray());
show(() => shop.parts.findOne({ name: /^W/i }));
show(() => shop.parts.find({ $frob: 1 }).toArray());
show(() => shop.parts.find().sort({ _id: -1 }).skip(1).limit(2).toArray());
show(() => shop.parts.find({ _id: 1 }).hasNext());
show(() => shop.parts.countDocuments());
show(() => shop.parts.countDocuments({ price: { $exists: false } }));
show(() => shop.parts.estimatedDocumentCount());
show(() => shop.parts.distinct('name'));
show(() => shop.parts.updateOne({ _id: 1 }, { $inc: { price: 1 } }));
show(() => shop.parts.updateMany({}, { $set: { stock: 3 } }));
show(() => shop.parts.updateOne({ _id: 9 }, { $set: { name: 'bolt' } }, { upsert: true }));
show(() => shop.parts.updateOne({ _id: 1 }, [{ $set: { total: { $multiply: ['$price', '$stock'] } } }]));
show(() => shop.parts.updateOne({ _id: 1 }, { $frob: { a: 1 } }));
show(() => shop.parts.updateOne({ _id: 1 }, { $set: { _id: 2 } }));
show(() => shop.parts.replaceOne({ _id: 2 }, { name: 'long axle' }));
show(() => shop.parts.findOneAndUpdate({ _id: 2 }, { $set: { price: 8 } }, { returnDocument: 'after' }));
show(() => shop.parts.findOneAndReplace({ _id: 2 }, { name: 'axle' }));
show(() => shop.parts.findOneAndDelete({ _id: 9 }));
show(() => shop.parts.findAndModify({ query: { _id: 3 }, update: { $inc: { stock: -1 } }, new: true }));
show(() => shop.parts.deleteOne({ _id: 5 }));
show(() => shop.parts.deleteMany({ _id: { $gt: 100 } }));
show(() => shop.parts.bulkWrite([{ insertOne: { document: { _id: 20 } } }, { deleteOne: { filter: { _id: 20 } } }]));
show(() => shop.parts.createIndex({ name: 1 }));
show(() => shop.parts.createIndex({ name: 1 }, { name: 'other' }));
show(() => shop.parts.createIndex({ code: 1 }, { unique: true, sparse: true }));
show(() => shop.parts.createIndexes([{ price: -1 }, { stock: 1, name: 1 }]));
show(() => shop.parts.getIndexes());
show(() => shop.parts.hideIndex('name_1'));
show(() => shop.parts.unhideIndex('name_1'));
show(() => shop.parts.dropIndex('price_-1'));
show(() => shop.parts.dropIndex('missing'));
show(() => shop.parts.find({ name: 'wheel' }).explain('executionStats').executionStats.totalDocsExamined);
show(() => shop.parts.find({ name: 'wheel' }).explain().queryPlanner.winningPlan.inputStage.indexName);
show(() => shop.parts.find({ name: 'wheel' }).hint('name_1').toArray().length);
show(() => shop.parts.find({ name: 'wheel' }).hint('missing').toArray());
show(() => shop.parts.aggregate([{ $group: { _id: null, n: { $sum: 1 }, stock: { $sum: '$stock' } } }]).toArray());
show(() => shop.parts.aggregate([{ $match: { _id: { $lt: 3 } } }, { $sort: { _id: -1 } }, { $project: { name: 1 } }]).toArray());
show(() => shop.parts.aggregate([{ $bucket: { groupBy: '$_id', boundaries: [0, 2, 10] } }]).toArray());
show(() => shop.parts.aggregate([{ $frob: 1 }]).toArray());
show(() => shop.names.insertMany([{ _id: 'wheel', german: 'Rad' }]));
show(() => shop.parts.aggregate([{ $lookup: { from: 'names', localField: 'name', foreignField: '_id', as: 'n' } }, { $match: { _id: 1 } }]).toArray());
show(() => shop.aggregate([{ $documents: [{ a: 1 }, { a: 2 }] }, { $match: { a: 2 } }]).toArray());
show(() => shop.getCollectionNames().sort());
show(() => shop.getCollectionInfos({ name: 'names' }).map(one => [one.name, one.type]));
show(() => shop.getMongo().getDBNames().includes('odm_clients_mongosh'));
show(() => shop.runCommand({ frobnicate: 1 }));
show(() => shop.runCommand({ find: 'parts', frob: 1 }));
show(() => shop.runCommand({ count: 'parts' }));
show(() => shop.stats().collections);
show(() => shop.parts.stats().count);
show(() => shop.parts.totalIndexSize() > 0);
show(() => shop.parts.isCapped());
show(() => shop.parts.validate().valid);
const session = db.getMongo().startSession();
const inside = session.getDatabase('odm_clients_mongosh').parts;
session.startTransaction();
show(() => inside.insertOne({ _id: 50 }));
show(() => inside.countDocuments({ _id: 50 }));
show(() => shop.parts.countDocuments({ _id: 50 }));
session.abortTransaction();
show(() => shop.parts.countDocuments({ _id: 50 }));
session.startTransaction();
show(() => inside.insertOne({ _id: 51 }));
session.commitTransaction();
show(() => shop.parts.findOne({ _id: 51 }));
show(() => shop.names.drop());
show(() => shop.names.drop());
show(() => shop.dropDatabase());
