package acl

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

func tokens(e *kit.Env) *kit.Command {
	return kit.Noun("token", "Tokens: who has them may do what they say", newTokenCreate(e), newTokenList(e),
		newTokenInfo(e), newTokenSelf(e), newTokenUpdate(e), newTokenDelete(e))
}

// tokenFlags are what a token is made of, whenever that is.
type tokenFlags struct {
	name, kind         string
	policies           kit.Strings
	roleIDs, roleNames kit.Strings
	global             bool
}

func (f *tokenFlags) addTo(cmd *kit.Command, kind string) {
	cmd.Flags().StringVar(&f.name, "name", "", "a `name` for people")
	cmd.Flags().StringVar(&f.kind, "type", kind, "its `type`: client, or management, which may do everything")
	cmd.Flags().Var(&f.policies, "policy", "a `policy` by its name; several times for several")
	cmd.Flags().Var(&f.roleIDs, "role-id", "a role by its `id`; several times for several")
	cmd.Flags().Var(&f.roleNames, "role-name", "a role by its `name`; several times for several")
	cmd.Flags().BoolVar(&f.global, "global", false, "it is good in every region, where there are several")
}

func (f *tokenFlags) roles() (out []*api.ACLTokenRoleLink) {
	for _, id := range f.roleIDs {
		out = append(out, &api.ACLTokenRoleLink{ID: id})
	}
	for _, name := range f.roleNames {
		out = append(out, &api.ACLTokenRoleLink{Name: name})
	}
	return out
}

// showToken shows a token; of its secret what the answer has.
func showToken(p *kit.Printer, t *api.ACLToken) {
	pairs := kit.Pairs{{"Accessor ID", t.AccessorID}}
	pairs.AddIf("Secret ID", t.SecretID)
	pairs = append(pairs, kit.Pairs{
		{"Name", t.Name},
		{"Type", t.Type},
		{"Global", strconv.FormatBool(t.Global)},
		{"Create Time", kit.At(t.CreateTime)},
		{"Expiry Time", expiry(t.ExpirationTime)},
		{"Create Index", strconv.FormatUint(t.CreateIndex, 10)},
		{"Modify Index", strconv.FormatUint(t.ModifyIndex, 10)},
	}...)
	if t.Type == api.ACLClientToken {
		pairs.Add("Policies", strings.Join(slices.Sorted(slices.Values(t.Policies)), ", "))
	}
	p.Pairs(pairs)
	kit.Part(p, "Roles", t.Roles, []string{"ID", "Name"},
		func(r *api.ACLTokenRoleLink) []string { return []string{r.ID, r.Name} })
}

func expiry(at *time.Time) string {
	if at == nil {
		return "<never>"
	}
	return kit.At(*at)
}

func newTokenCreate(e *kit.Env) *kit.Command {
	var f tokenFlags
	var ttl time.Duration
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "create [flags]",
		Short: "Make a token, and show its secret this once",
		Long: `Keep the secret, or give it to whom the token is for: the servers have nothing but its hash, and show it
to nobody again. Policies and roles must be there.`,
		Example: `  berth acl token create -name deploy -policy writers -ttl 8h
  berth acl token create -name night-shift -role-name people
  berth acl token create -name second-admin -type management`,
		Run: func(ctx context.Context, _ []string) error {
			req := &api.ACLToken{
				Name:     f.name,
				Type:     f.kind,
				Policies: f.policies,
				Roles:    f.roles(),
				Global:   f.global,
			}
			if ttl != 0 {
				req.ExpirationTTL = ttl.String()
			}
			t, err := e.Client().ACL().PutToken(ctx, req)
			return formats.Show(e.Out, t, doing(err, "make", "ACL token", f.name), func() { showToken(e.Out, t) })
		},
	}
	f.addTo(cmd, api.ACLClientToken)
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "the `duration` for which it is good, 1m to 24h; without it, for ever")
	return formats.AddTo(cmd)
}

func newTokenUpdate(e *kit.Env) *kit.Command {
	var f tokenFlags
	var formats kit.Formats
	cmd := &kit.Command{
		Use:   "update [flags] <accessor>",
		Short: "Change a token: what a flag names is replaced, the rest stays",
		Long: `Its secret, and when it expires, stay as they were made. One that is made a management token loses its
policies and roles, for it may do everything.`,
		Example: `  berth acl token update -name deploy-eu -policy writers 8ebfe6b7-2801-41ba-9c10-0f4a887cb813`,
	}
	f.addTo(cmd, "")
	cmd.Run = func(ctx context.Context, args []string) error {
		t, _, err := e.Client().ACL().Token(ctx, args[0], nil)
		if err != nil {
			return doing(err, "update", "ACL token", args[0])
		}
		if f.name != "" {
			t.Name = f.name
		}
		if f.kind != "" {
			t.Type = f.kind
		}
		if t.Type == api.ACLManagementToken {
			t.Policies, t.Roles = nil, nil
		}
		if len(f.policies) > 0 {
			t.Policies = f.policies
		}
		if links := f.roles(); len(links) > 0 {
			t.Roles = links
		}
		if cmd.Flags().Given("global") {
			t.Global = f.global
		}
		t, err = e.Client().ACL().PutToken(ctx, t)
		return formats.Show(e.Out, t, doing(err, "update", "ACL token", args[0]), func() { showToken(e.Out, t) })
	}
	return formats.AddTo(cmd)
}

func newTokenList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "list [flags]",
		Short:   "List the tokens, without their secrets",
		Example: "  berth acl token list",
		Run: func(ctx context.Context, _ []string) error {
			list, _, err := e.Client().ACL().Tokens(ctx, nil)
			now := time.Now()
			return formats.Show(e.Out, list, doing(err, "list", "the ACL tokens", ""), func() {
				kit.List(e.Out, list, "ACL tokens", []string{"Name", "Type", "Global", "Accessor ID", "Expired"},
					func(t *api.ACLTokenListStub) []string {
						over := t.ExpirationTime != nil && !now.Before(*t.ExpirationTime)
						global, expired := strconv.FormatBool(t.Global), strconv.FormatBool(over)
						return []string{t.Name, t.Type, global, t.AccessorID, expired}
					})
			})
		},
	})
}

func newTokenInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "info [flags] <accessor>",
		Short:   "Show a token, without its secret",
		Example: "  berth acl token info 8ebfe6b7-2801-41ba-9c10-0f4a887cb813",
		Run: func(ctx context.Context, args []string) error {
			t, _, err := e.Client().ACL().Token(ctx, args[0], nil)
			return formats.Show(e.Out, t, doing(err, "read", "ACL token", args[0]), func() { showToken(e.Out, t) })
		},
	})
}

func newTokenSelf(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "self [flags]",
		Short:   "Show the token whose secret you show",
		Example: "  berth acl token self",
		Run: func(ctx context.Context, _ []string) error {
			t, _, err := e.Client().ACL().Self(ctx, nil)
			if !e.ShowsToken() && fault.Has(doing(err, "read", "the ACL token that is shown", ""), fault.Denied) {
				return kit.Fail(fault.Denied, "show one with -token, BERTH_TOKEN or NOMAD_TOKEN",
					"no token is shown: what you may do comes from the socket, as root, or the policy anonymous")
			}
			return formats.Show(e.Out, t, doing(err, "read", "the ACL token that is shown", ""), func() {
				t.SecretID = "" // whoever asks has it, and others may look at the screen
				showToken(e.Out, t)
			})
		},
	})
}

func newTokenDelete(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "delete <accessor>",
		Short:   "Delete a token: its secret lets nobody in any more",
		Example: "  berth acl token delete 8ebfe6b7-2801-41ba-9c10-0f4a887cb813",
		Run: func(ctx context.Context, args []string) error {
			return deleted(e, e.Client().ACL().DeleteToken(ctx, args[0]), "ACL token", args[0])
		},
	}
}
