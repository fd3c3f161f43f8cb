package api

// WriteRequest are the members that every write carries in its body; the query parameters say the same.
type WriteRequest struct {
	Region    string
	Namespace string
	SecretID  string
}

// QueryMeta are the members that some replies repeat from the headers.
type QueryMeta struct {
	Index       uint64
	LastContact int64 // nanoseconds
	KnownLeader bool
	NextToken   string
}

// GenericResponse is the reply to a write that has nothing more to say.
type GenericResponse struct {
	Index uint64
}
