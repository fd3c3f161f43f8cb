package api

// Variable is what is kept at a path of a namespace.
type Variable struct {
	Namespace   string
	Path        string
	Lock        *VariableLock // nil: nobody holds one
	CreateIndex uint64
	CreateTime  int64 // nanoseconds since the epoch
	ModifyIndex uint64
	ModifyTime  int64
	Items       Secrets // nil in conflicts whose items the caller may not read
}

// VariableMetadata is what lists say of a variable: all but what it holds.
type VariableMetadata struct {
	Namespace   string
	Path        string
	Lock        *VariableLock
	CreateIndex uint64
	CreateTime  int64
	ModifyIndex uint64
	ModifyTime  int64
}

// VariableLock is held by whoever knows its ID, as long as it is renewed within its TTL.
type VariableLock struct {
	TTL       string // a duration, such as "15s"
	LockDelay string // after it was lost, before it can be acquired again
	ID        string // empty for who has not shown it, but for those who run the cluster
}
