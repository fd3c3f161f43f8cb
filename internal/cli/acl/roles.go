package acl

import (
	"context"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

func roles(e *kit.Env) *kit.Command {
	return kit.Noun("role", "Roles: lists of policies for many tokens", newRoleCreate(e), newRoleList(e),
		newRoleInfo(e), newRoleUpdate(e), newRoleDelete(e))
}

// roleFlags are what a role is made of.
type roleFlags struct {
	name, description string
	policies          kit.Strings
}

func (f *roleFlags) addTo(cmd *kit.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "its `name`, of letters, digits and dashes")
	cmd.Flags().StringVar(&f.description, "description", "", "a `text` that says what it is for")
	cmd.Flags().Var(&f.policies, "policy", "a `policy` by its name; several times for several")
}

func policyLinks(names []string) (out []*api.ACLRolePolicyLink) {
	for _, name := range names {
		out = append(out, &api.ACLRolePolicyLink{Name: name})
	}
	return out
}

func policyNames(links []*api.ACLRolePolicyLink) string {
	var names []string
	for _, l := range links {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

func showRole(p *kit.Printer, r *api.ACLRole) {
	p.Pairs(kit.Pairs{
		{"ID", r.ID},
		{"Name", r.Name},
		{"Description", r.Description},
		{"Policies", policyNames(r.Policies)},
		{"Create Index", strconv.FormatUint(r.CreateIndex, 10)},
		{"Modify Index", strconv.FormatUint(r.ModifyIndex, 10)},
	})
}

func newRoleCreate(e *kit.Env) *kit.Command {
	var f roleFlags
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "create -name=<name> -policy=<policy> [flags]",
		Short:   "Make a role of policies that there are",
		Example: `  berth acl role create -name people -policy readers -policy writers`,
		Run: func(ctx context.Context, _ []string) error {
			if f.name == "" || len(f.policies) == 0 {
				return kit.Usage("a role needs -name and -policy")
			}
			r, err := e.Client().ACL().PutRole(ctx, &api.ACLRole{
				Name:        f.name,
				Description: f.description,
				Policies:    policyLinks(f.policies),
			})
			return formats.Show(e.Out, r, doing(err, "make", "ACL role", f.name), func() { showRole(e.Out, r) })
		},
	}
	f.addTo(cmd)
	return formats.AddTo(cmd)
}

func newRoleUpdate(e *kit.Env) *kit.Command {
	var f roleFlags
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "update [flags] <id>",
		Short:   "Change a role: what a flag names is replaced, the rest stays",
		Example: `  berth acl role update -policy readers 3f7c2ab0-9d51-4c1e-8a44-0c5b6f2e7d10`,
		Run: func(ctx context.Context, args []string) error {
			r, _, err := e.Client().ACL().Role(ctx, args[0], nil)
			if err != nil {
				return doing(err, "update", "ACL role", args[0])
			}
			if f.name != "" {
				r.Name = f.name
			}
			if f.description != "" {
				r.Description = f.description
			}
			if len(f.policies) > 0 {
				r.Policies = policyLinks(f.policies)
			}
			r, err = e.Client().ACL().PutRole(ctx, r)
			return formats.Show(e.Out, r, doing(err, "update", "ACL role", args[0]), func() { showRole(e.Out, r) })
		},
	}
	f.addTo(cmd)
	return formats.AddTo(cmd)
}

func newRoleList(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "list [flags]",
		Short:   "List the roles",
		Example: "  berth acl role list",
		Run: func(ctx context.Context, _ []string) error {
			list, _, err := e.Client().ACL().Roles(ctx, nil)
			return formats.Show(e.Out, list, doing(err, "list", "the ACL roles", ""), func() {
				kit.List(e.Out, list, "ACL roles", []string{"ID", "Name", "Description", "Policies"},
					func(r *api.ACLRole) []string {
						return []string{r.ID, r.Name, r.Description, policyNames(r.Policies)}
					})
			})
		},
	})
}

func newRoleInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	var byName bool
	cmd := &kit.Command{
		Use:   "info [flags] <id>",
		Short: "Show a role",
		Example: `  berth acl role info 3f7c2ab0-9d51-4c1e-8a44-0c5b6f2e7d10
  berth acl role info -by-name people`,
		Run: func(ctx context.Context, args []string) error {
			read := e.Client().ACL().Role
			if byName {
				read = e.Client().ACL().RoleNamed
			}
			r, _, err := read(ctx, args[0], nil)
			return formats.Show(e.Out, r, doing(err, "read", "ACL role", args[0]), func() { showRole(e.Out, r) })
		},
	}
	cmd.Flags().BoolVar(&byName, "by-name", false, "the argument is its name")
	return formats.AddTo(cmd)
}

func newRoleDelete(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "delete <id>",
		Short:   "Delete a role: tokens that have it lose what it gives",
		Example: "  berth acl role delete 3f7c2ab0-9d51-4c1e-8a44-0c5b6f2e7d10",
		Run: func(ctx context.Context, args []string) error {
			return deleted(e, e.Client().ACL().DeleteRole(ctx, args[0]), "ACL role", args[0])
		},
	}
}
