package volumes

import (
	"context"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/cli/kit"
)

// remove is "volume delete".
type remove struct {
	env     *kit.Env
	kind    kindFlag
	secrets secretsFlag
	wait    time.Duration
	detach  bool
}

func newDelete(e *kit.Env) *kit.Command {
	r := &remove{env: e}
	cmd := &kit.Command{
		Use:   "delete [flags] <volume>",
		Short: "Have the provider delete a volume, with all that it holds",
		Long: `Deletes a volume at its provider and forgets it. One that is in use is left alone, and who uses it is
shown. -wait waits for a release that is under way, and shows what it waits for. A provider that takes its time is
followed. Ctrl-C ends the following, and not the deletion.`,
		Example: "  berth volume delete db-data\n  berth job stop db && berth volume delete -wait 30s db-data",
		IDs:     "volumes",
		Run:     func(ctx context.Context, args []string) error { return r.do(ctx, args[0]) },
	}
	r.kind.addTo(cmd)
	r.secrets.addTo(cmd)
	cmd.Flags().DurationVar(&r.wait, "wait", 0, "how long to wait until nobody uses it any more (a `duration`)")
	cmd.Flags().BoolVar(&r.detach, "detach", false, "do not follow; it is accepted, and goes on by itself")
	return cmd
}

func (r *remove) do(ctx context.Context, arg string) error {
	if err := r.kind.check(); err != nil {
		return err
	}
	secrets, err := r.secrets.secrets()
	if err != nil {
		return err
	}
	ref, err := r.env.Volume(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	c := r.env.Client()
	g, gctx := lifecycle.NewGroup(ctx)
	if r.wait > 0 {
		g.Go("progress", func() error {
			r.progress(gctx, c, ref)
			return nil
		})
	}
	p := patience{env: r.env, wait: max(r.wait, followFor), detach: r.detach}
	out, err := c.Volumes().BeginDelete(ctx, ref.ID, secrets, max(r.wait, p.within()), ref.Write())
	g.Stop()
	if waitErr := g.Wait(); waitErr != nil && err == nil {
		err = waitErr
	}
	if err != nil {
		return kit.Doing(err, "delete", "volume", ref.ID)
	}
	if p.accepted("The deletion of volume \""+ref.ID+"\"", []api.CSIVolumeWriteResult{*out}) {
		if p.detach {
			return nil
		}
		err = p.volume(ctx, ref, func(v *api.CSIVolume) (bool, error) {
			if v != nil && v.LastError != "" {
				return true, kit.Fail(fault.Conflict,
					"it stays recorded as deleting and is tried again; follow it with: berth volume status "+
						ref.Typed(),
					"delete volume %q: %s", ref.ID, kit.OneSentence(v.LastError))
			}
			return v == nil, nil
		})
		if err != nil {
			return err
		}
	}
	r.env.Out.Printf("Volume %q deleted\n", ref.ID)
	return nil
}

// progress tells what a deletion waits for, each time it is something else. It ends with the deletion.
func (r *remove) progress(ctx context.Context, c *api.Client, ref kit.Ref) {
	last := ""
	o := ref.Query()
	for ctx.Err() == nil {
		v, meta, err := c.Volumes().Get(ctx, ref.ID, o)
		if err != nil {
			return // the deletion itself will say it
		}
		if text := strings.Join(v.State, "; "); text != last && text != "" {
			last = text
			r.env.Err.Printf("    %s: %s\n", kit.At(time.Now()), kit.Clean(text))
		}
		if meta.Index <= o.WaitIndex {
			return // nothing to wait by
		}
		o.WaitIndex = meta.Index
	}
}

func newDeregister(e *kit.Env) *kit.Command {
	var force bool
	var yes kit.Agreement
	var reason string
	cmd := &kit.Command{
		Use:   "deregister [flags] <volume>",
		Short: "Forget a volume and leave it with its provider",
		Long: `Forgets a volume; what it holds stays with the provider. -force does so also while it is released,
detached or deleted, and needs the reason, which is kept: what is still done to it is then nobody's concern any
more. While an allocation has it, or it is made or grows, it is refused.`,
		Example: "  berth volume deregister db-data",
		IDs:     "volumes",
		Run: func(ctx context.Context, args []string) error {
			if force && reason == "" {
				return kit.Usage("-force needs -reason")
			}
			ref, err := e.Volume(ctx, args[0], kit.Change)
			if err != nil {
				return err
			}
			if force {
				question := "Forget volume \"" + ref.ID + "\" although something is still done to it?"
				if err := e.Confirm(yes, question, "give -yes"); err != nil {
					return err
				}
			}
			if err := e.Client().Volumes().Deregister(ctx, ref.ID, force, reason, ref.Write()); err != nil {
				return kit.Doing(err, "deregister", "volume", ref.ID)
			}
			e.Out.Printf("Volume %q deregistered\n", ref.ID)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false,
		"also while it is released, detached or deleted; not while an allocation has it")
	cmd.Flags().StringVar(&reason, "reason", "", "why it is forced (a `text`); kept")
	yes.AddTo(cmd)
	return cmd
}

// detach is "volume detach".
type detach struct {
	env  *kit.Env
	dead string
	yes  kit.Agreement
}

func newDetach(e *kit.Env) *kit.Command {
	d := &detach{env: e}
	cmd := &kit.Command{
		Use:   "detach [flags] <volume> <node>",
		Short: "Have a volume leave a node",
		Long: `Detaches a volume from a node on which nobody uses it any more. One that is in use is left alone.

A node that went silent may still write, so its claims stay. -node-is-dead ends them on your word that it cannot write
any more: it has no power, or is destroyed. The reason is kept. If the word is wrong, two nodes write to one volume.`,
		Example: "  berth volume detach db-data 8f3a11c0\n  berth volume detach -node-is-dead \"its power supply " +
			"burned\" db-data 8f3a11c0",
		IDs: "volumes",
	}
	cmd.Run = func(ctx context.Context, args []string) error {
		if cmd.Flags().Given("node-is-dead") && strings.TrimSpace(d.dead) == "" {
			return kit.Usage("-node-is-dead needs the reason")
		}
		return d.do(ctx, args[0], args[1])
	}
	cmd.Flags().StringVar(&d.dead, "node-is-dead", "",
		"your word that the node cannot write any more, with the `reason`; kept")
	d.yes.AddTo(cmd)
	return cmd
}

func (d *detach) do(ctx context.Context, volume, place string) error {
	ref, err := d.env.Volume(ctx, volume, kit.Change)
	if err != nil {
		return err
	}
	node, err := d.env.Node(ctx, place, kit.Change)
	if fault.Has(err, fault.NotFound) {
		return err
	}
	if err != nil {
		return fault.Note(err, "detach", "volume \""+ref.ID+"\"")
	}
	o := ref.Write()
	if d.dead != "" {
		question := "Is node \"" + kit.ID(node.ID, false) + "\" certain never to write to volume \"" + ref.ID +
			"\" again?"
		if err := d.env.Confirm(d.yes, question, "give -yes"); err != nil {
			return err
		}
		o.Params = map[string]string{"attest": d.dead}
	}
	if err := d.env.Client().Volumes().Detach(ctx, ref.ID, node.ID, o); err != nil {
		return kit.Doing(err, "detach", "volume", ref.ID)
	}
	d.env.Out.Printf("Volume %q is leaving node %q\n", ref.ID, kit.ID(node.ID, false))
	v, _, err := d.env.Client().Volumes().Get(ctx, ref.ID, ref.Query())
	switch {
	case api.IsNotFound(err):
		return nil
	case err != nil:
		return kit.Doing(err, "read", "volume", ref.ID)
	}
	for _, text := range v.State {
		d.env.Err.Printf("    %s\n", kit.Clean(text))
	}
	if len(v.State) > 0 {
		d.env.Err.Notice("It goes on by itself as soon as it can; follow it with: berth volume status " + ref.Typed() +
			", and its plugin with: berth plugin status " + v.PluginID)
	}
	return nil
}
