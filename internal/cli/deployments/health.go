package deployments

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// health is "deployment health".
type health struct {
	env             *kit.Env
	healthy, failed kit.Strings
	how             how
}

func newHealth(e *kit.Env) *kit.Command {
	h := &health{env: e}
	cmd := &kit.Command{
		Use:   "health [flags] <deployment>",
		Short: "Say by hand which allocations of a deployment are healthy",
		Long: `Says which allocations of a deployment are healthy and which are not, where the group has
update { health_check = "manual" }: there nobody else does. The deployment goes on with the next ones, which are waited
for as well, so it is not followed to its end but shown as it stands.`,
		Example: `  berth deployment health -healthy 4ff1d9c5 9277ed84
  berth deployment health -healthy 4ff1d9c5 -healthy 0c1b77aa -unhealthy 77a1f002 9277ed84`,
		IDs: "deployment",
		Run: func(ctx context.Context, args []string) error { return h.do(ctx, args[0]) },
	}
	cmd.Flags().Var(&h.healthy, "healthy", "this `allocation` is healthy; may come again")
	cmd.Flags().Var(&h.failed, "unhealthy", "this `allocation` is not healthy; may come again")
	return h.how.addTo(cmd)
}

func (h *health) do(ctx context.Context, arg string) error {
	if len(h.healthy)+len(h.failed) == 0 {
		return kit.Fail(fault.Invalid, `"berth deployment status -verbose `+arg+`" lists them`,
			"no allocation is named: name them with -healthy and -unhealthy")
	}
	ref, err := h.env.Deployment(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	healthy, err := h.allocs(ctx, h.healthy)
	if err != nil {
		return err
	}
	failed, err := h.allocs(ctx, h.failed)
	if err != nil {
		return err
	}
	f := follow.New(h.env, h.how.verbose, false)
	out, _, err := f.Client.Deployments().SetHealth(ctx, ref.ID, healthy, failed, ref.Write())
	if err != nil {
		return kit.Doing(err, "set the health of allocations of", "deployment", arg)
	}
	h.env.Out.Printf("%s\n", h.said(healthy, failed))
	if h.how.detach {
		return f.Changed(ctx, ref, out, true, "")
	}
	d, _, err := f.Client.Deployments().Get(ctx, ref.ID, ref.Query())
	if err != nil {
		return kit.Doing(err, "read", "deployment", arg)
	}
	h.env.Out.Printf("\n")
	follow.DeploymentBlock(h.env.Out, d, h.how.verbose)
	if d.Status == api.DeploymentStatusFailed {
		return kit.Fail(fault.Conflict, "", "the deployment has failed: %s", d.StatusDescription)
	}
	return nil
}

// allocs are the whole ids of what a person has named.
func (h *health) allocs(ctx context.Context, args []string) (out []string, err error) {
	for _, arg := range args {
		a, err := h.env.Alloc(ctx, arg, kit.Change)
		if err != nil {
			return nil, err
		}
		out = append(out, a.ID)
	}
	return out, nil
}

// said repeats what was said.
func (h *health) said(healthy, failed []string) string {
	name := func(list []string) string {
		short := make([]string, len(list))
		for i, id := range list {
			short[i] = fmt.Sprintf("%q", kit.ID(id, h.how.verbose))
		}
		return strings.Join(short, ", ")
	}
	var parts []string
	if len(healthy) > 0 {
		parts = append(parts, "Healthy by hand: "+name(healthy))
	}
	if len(failed) > 0 {
		parts = append(parts, "Not healthy by hand: "+name(failed))
	}
	return strings.Join(parts, "; ")
}
