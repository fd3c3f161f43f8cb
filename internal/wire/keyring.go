package wire

import "berth/internal/model/datakey"

// Methods over the keys that the cluster's secrets are sealed with; served by the server half.
var (
	DataKeys      = Unary[Query, DataKeysReply]("Keyring.DataKeys")
	DataKeyRotate = Unary[RotateRequest, RotateReply]("Keyring.Rotate")
	DataKeyRemove = Unary[DataKeyRequest, Written]("Keyring.Remove")
)

// DataKey is what people see of a data key.
type DataKey struct {
	datakey.Key     // without what is in its wraps
	Sealed      int // entries that are sealed with it
}

// DataKeysReply lists the data keys, the oldest first.
type DataKeysReply struct {
	Meta
	Keys []DataKey
}

// RotateRequest asks for a new data key and a new signing key.
type RotateRequest struct {
	Full bool // and to seal with it what was sealed before
	By   string
}

// RotateReply is the new data key.
type RotateReply struct {
	Key   DataKey
	Index uint64
}

// DataKeyRequest names a data key.
type DataKeyRequest struct {
	ID string
	By string // as the API knows them
}
