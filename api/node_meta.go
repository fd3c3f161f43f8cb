package api

// NodePurgeResponse names the evaluations that follow from the end of a node's record.
type NodePurgeResponse struct {
	EvalIDs         []string
	EvalCreateIndex uint64 // 0: there are none
	NodeModifyIndex uint64
}

// NodeMetaApplyRequest changes the metadata of a node at run time. An empty NodeID means the node of the agent.
type NodeMetaApplyRequest struct {
	NodeID string
	Meta   map[string]*string // nil takes a key away; keys that are not there stay
}

// NodeMetaResponse is the metadata of a node: Dynamic, said at run time, over Static, of its configuration, makes Meta.
type NodeMetaResponse struct {
	Meta    map[string]string
	Dynamic map[string]*string // nil: the key is taken away from Static
	Static  map[string]string
}
