package acl

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// maxRules bounds the text of a policy, in bytes.
const maxRules = 64 << 10

func policies(e *kit.Env) *kit.Command {
	return kit.Noun("policy", "Policies: what may be done", newPolicyApply(e), newPolicyList(e), newPolicyInfo(e),
		newPolicyDelete(e), newPolicySelf(e))
}

func newPolicyApply(e *kit.Env) *kit.Command {
	p, of := &api.ACLPolicy{}, api.JobACL{}
	cmd := &kit.Command{
		Use:   "apply [flags] <name> <file>",
		Short: "Write a policy, a new one or in place of the one of this name",
		Long: `The file has the rules, in HCL; - is the standard input. Tokens that have the policy may do what it says
from then on. The policy "anonymous" is for requests without a token.

With -job the tasks of a job have the policy, too, by the identities that they show (identity blocks); with -group and
-task those of a part of it alone. -namespace says of which namespace the job is.`,
		Example: `  berth acl policy apply -description "may look" readers readers.hcl
  berth acl policy apply -namespace shop -job web -group front web-vars web-vars.hcl`,
		Run: func(ctx context.Context, args []string) error {
			text, shown, err := e.ReadFile(args[1], "policy", maxRules+1)
			if err != nil {
				return err
			}
			if len(text) > maxRules {
				return kit.Fail(fault.Invalid, "make several policies of it", "%s has more than %d bytes", shown,
					maxRules)
			}
			if of.JobID == "" && (of.Group != "" || of.Task != "") {
				return kit.Fail(fault.Invalid, "give -job, too", "-group and -task are parts of a job")
			}
			if of.JobID != "" {
				of.Namespace = cmp.Or(e.Client().Config().Namespace, "default")
				p.JobACL = &of
			}
			p.Name, p.Rules = args[0], string(text)
			if err := e.Client().ACL().PutPolicy(ctx, p); err != nil {
				return findings(e, err, p.Name)
			}
			e.Out.Printf("ACL policy %q is written\n", kit.Clean(p.Name))
			return nil
		},
	}
	cmd.Flags().StringVar(&p.Description, "description", "", "a `text` that says what it is for")
	cmd.Flags().StringVar(&of.JobID, "job", "", "tasks of this `job` have the policy by their identities")
	cmd.Flags().StringVar(&of.Group, "group", "", "those of this `group` of the job alone")
	cmd.Flags().StringVar(&of.Task, "task", "", "this `task` of the group alone")
	return cmd
}

// listPolicies shows a list of policies.
func listPolicies(
	e *kit.Env, read func(context.Context, *api.QueryOptions) ([]*api.ACLPolicyListStub, *api.QueryMeta, error),
) (*kit.Formats, func(context.Context, []string) error) {
	formats := &kit.Formats{}
	return formats, func(ctx context.Context, _ []string) error {
		list, _, err := read(ctx, nil)
		return formats.Show(e.Out, list, doing(err, "list", "the ACL policies", ""), func() {
			kit.List(e.Out, list, "ACL policies", []string{"Name", "Description"},
				func(p *api.ACLPolicyListStub) []string { return []string{p.Name, p.Description} })
		})
	}
}

func newPolicyList(e *kit.Env) *kit.Command {
	formats, run := listPolicies(e,
		func(ctx context.Context, o *api.QueryOptions) ([]*api.ACLPolicyListStub, *api.QueryMeta, error) {
			return e.Client().ACL().Policies(ctx, o)
		})
	return formats.AddTo(&kit.Command{
		Use:     "list [flags]",
		Short:   "List the policies that you may see",
		Long:    "With a token that may do everything these are all, with another one those that it has.",
		Example: "  berth acl policy list",
		Run:     run,
	})
}

func newPolicySelf(e *kit.Env) *kit.Command {
	formats, run := listPolicies(e,
		func(ctx context.Context, o *api.QueryOptions) ([]*api.ACLPolicyListStub, *api.QueryMeta, error) {
			return e.Client().ACL().OwnPolicies(ctx, o)
		})
	return formats.AddTo(&kit.Command{
		Use:     "self [flags]",
		Short:   "List the policies of the token that you show",
		Example: "  berth acl policy self",
		Run:     run,
	})
}

func newPolicyInfo(e *kit.Env) *kit.Command {
	var formats kit.Formats
	return formats.AddTo(&kit.Command{
		Use:     "info [flags] <name>",
		Short:   "Show a policy with its rules",
		Example: "  berth acl policy info readers",
		Run: func(ctx context.Context, args []string) error {
			p, _, err := e.Client().ACL().Policy(ctx, args[0], nil)
			return formats.Show(e.Out, p, doing(err, "read", "ACL policy", args[0]), func() {
				e.Out.Pairs(kit.Pairs{
					{"Name", p.Name},
					{"Description", p.Description},
					{"Create Index", strconv.FormatUint(p.CreateIndex, 10)},
					{"Modify Index", strconv.FormatUint(p.ModifyIndex, 10)},
				})
				if j := p.JobACL; j != nil {
					e.Out.Section("Tasks that have it")
					e.Out.Pairs(kit.Pairs{
						{"Namespace", j.Namespace},
						{"Job", j.JobID},
						{"Group", cmp.Or(j.Group, "<all>")},
						{"Task", cmp.Or(j.Task, "<all>")},
					})
				}
				e.Out.Section("Rules")
				for line := range strings.Lines(p.Rules) {
					text := strings.TrimLeft(line, " \t")
					e.Out.Text(line[:len(line)-len(text)] + kit.Clean(text) + "\n")
				}
			})
		},
	})
}

func newPolicyDelete(e *kit.Env) *kit.Command {
	return &kit.Command{
		Use:     "delete <name>",
		Short:   "Delete a policy: tokens and roles that have it lose what it gives",
		Example: "  berth acl policy delete readers",
		Run: func(ctx context.Context, args []string) error {
			return deleted(e, e.Client().ACL().DeletePolicy(ctx, args[0]), "ACL policy", args[0])
		},
	}
}
