package httpapi

import (
	"berth/internal/base/fault"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/convert/lists"
	"berth/internal/wire"
)

// shownSecret is the secret of the token that a request shows.
func (r *request) shownSecret() wire.Secrets { return lists.SealedSecret(access.Token(r.Request)) }

func (r *request) aclPolicies() (*wire.ACLPolicyListRequest, error) {
	q, err := r.list()
	return &wire.ACLPolicyListRequest{Query: q, Secret: r.shownSecret()}, err
}

// aclOwn asks for the policies of the token that is shown.
func (r *request) aclOwn() (*wire.ACLPolicyListRequest, error) {
	req, err := r.aclPolicies()
	if err == nil && access.Token(r.Request).Empty() {
		err = fault.WithHint(fault.New(fault.Denied, "", "", "the request shows no token"),
			"give one with -token, BERTH_TOKEN or NOMAD_TOKEN")
	}
	return req, err
}

func (r *request) aclPolicy() (*wire.ACLPolicyRequest, error) {
	ref, err := byName[string](r)
	return &wire.ACLPolicyRequest{Ref: *ref, Secret: r.shownSecret()}, err
}

func (r *request) aclTokens() (*wire.ACLTokenListRequest, error) {
	q, err := r.list()
	return &wire.ACLTokenListRequest{Query: q, Global: r.flag("global")}, err
}

func (r *request) aclSelf() (*wire.ACLSelfRequest, error) {
	q, err := r.query()
	return &wire.ACLSelfRequest{Query: q, Secret: r.shownSecret()}, err
}

// showSelf answers with the secret, too, as clients of this API expect it: whoever asks has it.
func (r *request) showSelf(out *wire.One[wire.ACLTokenView]) (any, error) {
	return lists.ACLToken(out.Item, access.Token(r.Request)), nil
}

// aclDelete names what is to be deleted.
func aclDelete(r *request) (*wire.ACLDeleteRequest, error) {
	return &wire.ACLDeleteRequest{ID: r.PathValue("id"), By: access.Peer(r.Request)}, nil
}

// partitionDelete names the namespace or the node pool that is to be deleted.
func partitionDelete(r *request) (*wire.PartitionDeleteRequest, error) {
	return &wire.PartitionDeleteRequest{Name: r.PathValue("id"), By: access.Peer(r.Request)}, nil
}
