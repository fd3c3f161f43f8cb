package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// orphansAdopt is "node orphans adopt".
type orphansAdopt struct {
	env             *kit.Env
	as, node        string
	detach, volumes bool
	yes             kit.Agreement
}

func newOrphansAdopt(e *kit.Env) *kit.Command {
	s := &orphansAdopt{env: e}
	cmd := &kit.Command{
		Use:   "adopt [flags] <alloc...>",
		Short: "Give orphans of one job to the servers",
		Long: `Gives orphans to the servers, all of one job at once: what runs goes on, with its volumes, as allocations
like any others. The job is shown, and is held to what a submitted one is held to; what is missing of its count is
placed.

It is refused if the servers have another job of that id (unless -as names a new one) or another allocation of that
name, if somebody else uses a volume of it in a way that excludes it, or if a volume has no record: register it first,
from the file that -volumes prints. Adopt storage plugins before those who use their volumes.`,
		Example: `  berth node orphans adopt 4ff1d9c5
  berth node orphans adopt -as db-old 4ff1d9c5 4f02aa10
  berth node orphans adopt -volumes 4ff1d9c5 > db-data.hcl && berth volume register db-data.hcl`,
		Run: func(ctx context.Context, args []string) error { return s.do(ctx, args) },
	}
	cmd.Flags().StringVar(&s.as, "as", "", "the new `id` of the job")
	cmd.Flags().BoolVar(&s.volumes, "volumes", false, "print files to register the volumes from, and adopt nothing")
	s.yes.AddTo(cmd)
	cmd.Flags().BoolVar(&s.detach, "detach", false, "do not wait until the nodes have taken it up")
	cmd.Flags().StringVar(&s.node, "node", "", "only those of this `node`")
	return cmd
}

func (s *orphansAdopt) do(ctx context.Context, args []string) error {
	list, err := allOrphans(ctx, s.env, s.node)
	if err != nil {
		return err
	}
	c := s.env.Client()
	var chosen []located
	var known []*api.Orphan
	for _, arg := range args {
		l, err := pickOrphan(list, arg)
		if err != nil {
			return err
		}
		o, err := c.Nodes().Orphan(ctx, l.node.ID, l.orphan.AllocID, nil)
		if err != nil {
			return kit.Doing(err, "read", "orphan", l.orphan.AllocID)
		}
		if len(known) > 0 && o.Digest != known[0].Digest {
			return kit.Fail(fault.Invalid, "adopt them one after the other",
				"%s and %s are of different jobs, or of different versions of one", known[0].AllocID, o.AllocID)
		}
		chosen, known = append(chosen, l), append(known, o)
	}
	if s.volumes {
		s.printVolumes(known)
		return nil
	}
	if err := s.show(known, list); err != nil {
		return err
	}
	err = s.env.Confirm(s.yes, "Give what is listed above to the servers?", "say that you mean it with -yes")
	if err != nil {
		return err
	}
	return s.adopt(ctx, c, chosen, known[0].Digest)
}

func (s *orphansAdopt) adopt(ctx context.Context, c *api.Client, chosen []located, digest string) error {
	req := &api.OrphanAdoptRequest{As: s.as, Digest: digest}
	for _, l := range chosen {
		req.Orphans = append(req.Orphans, &api.OrphanRef{NodeID: l.node.ID, AllocID: l.orphan.AllocID})
	}
	out, _, err := c.Nodes().AdoptOrphans(ctx, req, nil)
	if err != nil {
		return kit.Doing(err, "adopt", "orphan", chosen[0].orphan.AllocID)
	}
	if out.Warnings != "" {
		s.env.Err.Printf("Warning: %s\n", out.Warnings)
	}
	if s.detach {
		s.env.Out.Printf("Adopted as job %q\n", out.JobID)
		return nil
	}
	for _, l := range chosen {
		if err := awaitGone(ctx, s.env, c, l); err != nil {
			return err
		}
		s.env.Out.Printf("Allocation %q is adopted as one of job %q\n", l.orphan.AllocID, out.JobID)
	}
	return nil
}

// show tells what would be given to the servers: whoever runs a node must not make them run another job by that.
func (s *orphansAdopt) show(known []*api.Orphan, list []located) error {
	for _, o := range known {
		lost := ""
		if o.RecordLost {
			lost = ", by what holds its processes: the node has lost its record"
		}
		s.env.Err.Printf("%s, %s on node %s%s\n", o.AllocID, o.Name, kit.ID(o.NodeID, false), lost)
		for _, v := range o.Volumes {
			s.env.Err.Printf("  volume %q (%s of plugin %q), %s\n", v.ID, v.ExternalID, v.PluginID, v.AccessMode)
		}
	}
	text, err := jobText(known[0].Job)
	if err != nil {
		return kit.Doing(err, "show", "job", known[0].AllocID)
	}
	s.env.Err.Text("Job:\n" + string(text) + "\n")
	for _, l := range list {
		mine := slices.ContainsFunc(known, func(o *api.Orphan) bool { return o.AllocID == l.orphan.AllocID })
		if job := known[0].Job; !mine && job != nil && job.ID != nil && l.orphan.JobID == *job.ID {
			s.env.Err.Printf("Warning: %s is an orphan of the same job; what is not adopted together is placed anew\n",
				l.orphan.AllocID)
		}
	}
	return nil
}

// jobText is a job without what it leaves unset.
func jobText(j *api.Job) ([]byte, error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	return json.MarshalIndent(set(all), "", "  ")
}

func set(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, of any) bool { return of == nil })
		for k := range v {
			v[k] = set(v[k])
		}
	case []any:
		for i := range v {
			v[i] = set(v[i])
		}
	}
	return v
}

// printVolumes prints files by which the volumes are registered as their nodes have them.
func (s *orphansAdopt) printVolumes(known []*api.Orphan) {
	for _, o := range known {
		for _, v := range o.Volumes {
			s.env.Out.Text(volumeFile(v))
		}
	}
}

func volumeFile(v *api.OrphanVolume) string {
	var b strings.Builder
	fmt.Fprintf(&b, "id          = %q\nname        = %q\ntype        = \"csi\"\n", v.ID, v.ID)
	fmt.Fprintf(&b, "plugin_id   = %q\nexternal_id = %q\n\n", v.PluginID, v.ExternalID)
	fmt.Fprintf(&b, "capability {\n  access_mode     = %q\n  attachment_mode = %q\n}\n", v.AccessMode, v.AttachmentMode)
	if v.FSType != "" {
		fmt.Fprintf(&b, "\nmount_options {\n  fs_type = %q\n}\n", v.FSType)
	}
	if len(v.Context) > 0 {
		b.WriteString("\ncontext {\n")
		for _, k := range slices.Sorted(maps.Keys(v.Context)) {
			fmt.Fprintf(&b, "  %q = %q\n", k, v.Context[k])
		}
		b.WriteString("}\n")
	}
	return b.String()
}
