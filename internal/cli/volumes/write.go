package volumes

import (
	"context"

	"berth/api"
	"berth/internal/cli/jobs"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

func newCreate(e *kit.Env) *kit.Command {
	p := patience{env: e}
	cmd := &kit.Command{
		Use:   "create [flags] <file>",
		Short: "Have the provider make a volume, or change one",
		Long: `Makes the volume that a file describes. The same file again changes nothing and says so; a changed file
changes what can be changed and names it; a larger capacity_min expands the volume, in use or not. A provider that takes
its time is followed. Ctrl-C ends the following, and not the work.`,
		Example: "  berth volume init\n  berth volume create volume.hcl",
		Run: func(ctx context.Context, args []string) error {
			vol, err := read(e, args[0])
			if err != nil {
				return err
			}
			out, _, err := e.Client().Volumes().Create(ctx, vol, p.write(kit.Ref{}))
			if err != nil {
				return kit.Doing(err, "create", "volume", vol.ID)
			}
			if p.accepted("Volume \""+vol.ID+"\"", out.Results) {
				return p.follow(ctx, kit.Ref{ID: vol.ID, Namespace: vol.Namespace}, "create", "created")
			}
			report(e, vol.ID, (*api.CSIVolumeRegisterResponse)(out), "created")
			return nil
		},
	}
	p.addTo(cmd)
	return cmd
}

func newRegister(e *kit.Env) *kit.Command {
	p := patience{env: e}
	cmd := &kit.Command{
		Use:   "register [flags] <file>",
		Short: "Make a volume known that the provider already has",
		Long: "Makes known the volume that a file describes; its external_id says which of the provider's volumes " +
			"it is.",
		Example: "  berth volume register volume.hcl",
		Run: func(ctx context.Context, args []string) error {
			vol, err := read(e, args[0])
			if err != nil {
				return err
			}
			out, _, err := e.Client().Volumes().Register(ctx, vol, p.write(kit.Ref{}))
			if err != nil {
				return kit.Doing(err, "register", "volume", vol.ID)
			}
			if p.accepted("Volume \""+vol.ID+"\"", out.Results) {
				return p.follow(ctx, kit.Ref{ID: vol.ID, Namespace: vol.Namespace}, "register", "registered")
			}
			report(e, vol.ID, out, "registered")
			return nil
		},
	}
	p.addTo(cmd)
	return cmd
}

// report says what a write came to, and the provider's id of the volume.
func report(e *kit.Env, id string, out *api.CSIVolumeRegisterResponse, otherwise string) {
	e.Err.Warn(out.Warnings)
	e.Out.Printf("Volume %q %s\n", id, kit.Clean(outcome(out.Results, otherwise)))
	if len(out.Volumes) == 0 || out.Volumes[0] == nil {
		return
	}
	v := out.Volumes[0]
	var l kit.Pairs
	l.Add("External ID", v.ExternalID)
	if v.Capacity > 0 {
		l.Add("Capacity", kit.Size(v.Capacity))
	}
	e.Out.Pairs(l)
}

// read parses a volume file, or the standard input when it is named -.
func read(e *kit.Env, name string) (*api.CSIVolume, error) {
	text, shown, err := e.ReadFile(name, "volume file", jobspec.MaxSource+1)
	if err != nil {
		return nil, err
	}
	vol, err := jobspec.ParseVolume(shown, text)
	if err != nil {
		return nil, jobs.Problems(e, shown, err)
	}
	if vol.CSI == nil {
		return nil, errNoHostVolumes
	}
	return vol.CSI, nil
}

func newExpand(e *kit.Env) *kit.Command {
	var least, most string
	p := patience{env: e}
	cmd := &kit.Command{
		Use:   "expand -size=<size> [flags] <volume>",
		Short: "Make a volume larger, in use or not",
		Long: "Makes a volume larger, and follows until the nodes that have it have grown its file system. One that " +
			"its plugin does not grow in use grows when the volume is staged next: that is said, and the exit code " +
			"is 1.",
		Example: "  berth volume expand -size 2GiB db-data",
		Run: func(ctx context.Context, args []string) error {
			return expand(ctx, &p, args[0], least, most)
		},
		IDs: "volumes",
	}
	cmd.Flags().StringVar(&least, "size", "", "`size` that it must have at least, such as 2GiB")
	cmd.Flags().StringVar(&most, "limit", "", "`size` that it may have at most")
	p.addTo(cmd)
	return cmd
}

func expand(ctx context.Context, p *patience, arg, least, most string) error {
	e := p.env
	req := &api.CSIVolumeExpandRequest{}
	var err error
	if req.CapacityMin, err = size("-size", least); err != nil {
		return err
	}
	if req.CapacityMax, err = size("-limit", most); err != nil {
		return err
	}
	if req.CapacityMin <= 0 {
		return kit.Usage("-size is missing, or 0: the size that the volume must have at least, such as 2GiB")
	}
	ref, err := e.Volume(ctx, arg, kit.Change)
	if err != nil {
		return err
	}
	out, _, err := e.Client().Volumes().Expand(ctx, ref.ID, req, p.write(ref))
	if err != nil {
		return kit.Doing(err, "expand", "volume", ref.ID)
	}
	if p.accepted("The expansion of volume \""+ref.ID+"\"", out.Results) {
		return p.follow(ctx, ref, "expand", "expanded")
	}
	report(e, ref.ID, (*api.CSIVolumeRegisterResponse)(out), "expanded")
	return nil
}
