package convert

import (
	"berth/api"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

// JoinToken is the public form of a join token; secret is what is shown to join, in the answer that made it.
func JoinToken(a *trust.Admission, secret wire.Secrets) *api.JoinToken {
	return &api.JoinToken{
		ID:       a.ID,
		Role:     string(a.Role),
		NodePool: a.NodePool,
		Uses:     a.Uses,
		Expires:  a.Expires,
		Created:  a.Created,
		By:       a.By,
		Token:    secret.Token(),
	}
}

// ToJoinToken is the internal form of a request for a join token.
func ToJoinToken(body *api.JoinTokenRequest, _, by string) (*wire.AdmitRequest, error) {
	return &wire.AdmitRequest{
		Role:     trust.Role(body.Role),
		NodePool: body.NodePool,
		Uses:     body.Uses,
		Good:     body.TTL,
		By:       by,
	}, nil
}

// MadeJoinToken is the answer to who asked for one.
func MadeJoinToken(out *wire.AdmitReply) (uint64, any) {
	return out.Index, JoinToken(out.Admission, out.Token)
}

// JoinTokens is the public form of a list of them.
func JoinTokens(out *wire.AdmissionsReply) []*api.JoinToken {
	list := make([]*api.JoinToken, 0, len(out.Admissions))
	for _, a := range out.Admissions {
		t := JoinToken(a, wire.Secrets{})
		for _, m := range out.Joined[a.ID] {
			t.Joined = append(t.Joined, &api.JoinedMember{ID: m.ID, Time: m.Joined, Denied: m.Denied})
		}
		list = append(list, t)
	}
	return list
}
