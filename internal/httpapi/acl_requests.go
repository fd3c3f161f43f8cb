package httpapi

import (
	"berth/internal/base/fault"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/lists"
	"berth/internal/wire"
)

// shownSecret is the secret of the token that a request shows.
func shownSecret(r *calls.Request) wire.Secrets { return lists.SealedSecret(access.Token(r.Request)) }

func aclPolicies(r *calls.Request) (*wire.ACLPolicyListRequest, error) {
	q, err := r.List()
	return &wire.ACLPolicyListRequest{Query: q, Secret: shownSecret(r)}, err
}

// aclOwn asks for the policies of the token that is shown.
func aclOwn(r *calls.Request) (*wire.ACLPolicyListRequest, error) {
	req, err := aclPolicies(r)
	if err == nil && access.Token(r.Request).Empty() {
		err = fault.WithHint(fault.New(fault.Denied, "", "", "the request shows no token"),
			"give one with -token, BERTH_TOKEN or NOMAD_TOKEN")
	}
	return req, err
}

func aclPolicy(r *calls.Request) (*wire.ACLPolicyRequest, error) {
	ref, err := calls.ByName[string](r)
	return &wire.ACLPolicyRequest{Ref: *ref, Secret: shownSecret(r)}, err
}

func aclTokens(r *calls.Request) (*wire.ACLTokenListRequest, error) {
	q, err := r.List()
	return &wire.ACLTokenListRequest{Query: q, Global: r.Flag("global")}, err
}

func aclSelf(r *calls.Request) (*wire.ACLSelfRequest, error) {
	q, err := r.Query()
	return &wire.ACLSelfRequest{Query: q, Secret: shownSecret(r)}, err
}

// showSelf answers with the secret, too, as clients of this API expect it: whoever asks has it.
func showSelf(r *calls.Request, out *wire.One[wire.ACLTokenView]) (any, error) {
	return lists.ACLToken(out.Item, access.Token(r.Request)), nil
}

// aclDelete names what is to be deleted.
func aclDelete(r *calls.Request) (*wire.ACLDeleteRequest, error) {
	return &wire.ACLDeleteRequest{ID: r.PathValue("id"), By: access.Peer(r.Request)}, nil
}

// partitionDelete names the namespace or the node pool that is to be deleted.
func partitionDelete(r *calls.Request) (*wire.PartitionDeleteRequest, error) {
	return &wire.PartitionDeleteRequest{Name: r.PathValue("id"), By: access.Peer(r.Request)}, nil
}
