package lists

import (
	"cmp"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/httpapi/convert/objects"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// SealedSecret takes the secret of a token onto the wire, if there is one.
func SealedSecret(secret redact.Secret) wire.Secrets {
	if secret.Empty() {
		return wire.Secrets{}
	}
	return wire.SealSecret(secret)
}

// ToACLBootstrap is the internal form of a request for the first token.
func ToACLBootstrap(body *api.ACLBootstrapRequest, _, by string) (*wire.ACLBootstrapRequest, error) {
	return &wire.ACLBootstrapRequest{Secret: SealedSecret(redact.New(body.BootstrapSecret)), By: by}, nil
}

// ToACLPolicy is the internal form of a policy that somebody writes.
func ToACLPolicy(body *api.ACLPolicy, path, by string) (*wire.ACLPolicyPutRequest, error) {
	name, err := objects.SameName("the name", body.Name, path)
	if err != nil {
		return nil, err
	}
	out := &wire.ACLPolicyPutRequest{Name: name, Description: body.Description, Rules: body.Rules, By: by}
	if j := body.JobACL; j != nil && *j != (api.JobACL{}) { // clients send an empty one for none
		out.Job = &acl.JobScope{
			Namespace: ids.Namespace(cmp.Or(j.Namespace, string(ids.DefaultNamespace))),
			Job:       ids.Job(j.JobID),
			Group:     j.Group,
			Task:      j.Task,
		}
	}
	return out, nil
}

// ToACLRole is the internal form of a role that somebody writes.
func ToACLRole(body *api.ACLRole, path, by string) (*wire.ACLRolePutRequest, error) {
	id, err := objects.SameName("the id", body.ID, path)
	if err != nil {
		return nil, err
	}
	out := &wire.ACLRolePutRequest{ID: id, Name: body.Name, Description: body.Description, By: by}
	for _, p := range body.Policies {
		if p != nil {
			out.Policies = append(out.Policies, p.Name)
		}
	}
	return out, nil
}

// ToACLToken is the internal form of a token that somebody writes.
func ToACLToken(body *api.ACLToken, path, by string) (*wire.ACLTokenPutRequest, error) {
	accessor, err := objects.SameName("the accessor", body.AccessorID, path)
	if err != nil {
		return nil, err
	}
	out := &wire.ACLTokenPutRequest{
		Accessor: accessor,
		Secret:   SealedSecret(redact.New(body.SecretID)),
		Name:     body.Name,
		Type:     acl.TokenType(body.Type),
		Policies: body.Policies,
		Global:   body.Global,
		By:       by,
	}
	if body.ExpirationTTL != "" {
		if out.Lives, err = time.ParseDuration(body.ExpirationTTL); err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "read", "ExpirationTTL")
		}
	}
	if body.ExpirationTime != nil {
		out.Expires = *body.ExpirationTime
	}
	for _, link := range body.Roles {
		switch {
		case link == nil:
		case link.ID != "":
			out.Roles = append(out.Roles, link.ID)
		default:
			out.RoleNames = append(out.RoleNames, link.Name)
		}
	}
	return out, nil
}

// WrittenACLRole is the answer to who wrote a role.
func WrittenACLRole(out *wire.ACLRoleReply) (uint64, any) { return out.Index, ACLRole(out.Role) }

// WrittenACLToken is the answer to who wrote a token, with its secret where the servers said it.
func WrittenACLToken(out *wire.ACLTokenReply) (uint64, any) {
	return out.Index, ACLToken(out.Token, out.Secret.Secret())
}

// ACLTokenOf is the public form of a token for who need not have its secret.
func ACLTokenOf(v *wire.ACLTokenView) *api.ACLToken { return ACLToken(v, redact.Secret{}) }
