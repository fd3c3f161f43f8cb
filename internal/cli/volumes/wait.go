package volumes

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// Times of a write whose end its provider decides: how long the agent waits before it answers that the write is
// accepted, and how long the command follows it, unless -wait names another time.
const (
	answerWithin = 5 * time.Second
	followFor    = 2 * time.Minute
)

// patience are the flags of such a write.
type patience struct {
	env    *kit.Env
	wait   time.Duration
	detach bool
}

func (p *patience) addTo(cmd *kit.Command) {
	cmd.Flags().DurationVar(&p.wait, "wait", followFor,
		"how long to follow it (a `duration`); it goes on after that, and the exit code is 1")
	cmd.Flags().BoolVar(&p.detach, "detach", false, "do not follow; it is accepted, and goes on by itself")
}

// within is how long the agent may wait before it answers.
func (p *patience) within() time.Duration {
	if p.detach {
		return time.Millisecond
	}
	return max(min(p.wait, answerWithin), time.Millisecond)
}

// write are the options of a request that is answered when it is accepted.
func (p *patience) write(ref kit.Ref) *api.WriteOptions {
	o := ref.Write()
	o.Params = map[string]string{"wait": p.within().String()}
	return o
}

// accepted reports whether a write goes on, and is to be followed.
func (p *patience) accepted(what string, results []api.CSIVolumeWriteResult) (goesOn bool) {
	if len(results) == 0 || results[0].Outcome != api.CSIVolumeAccepted {
		return false
	}
	p.env.Out.Printf("%s\n", kit.Clean(what+" is accepted, and goes on by itself: "+results[0].Waits))
	return true
}

// limit bounds following.
func (p *patience) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(p.wait-p.within(), time.Millisecond))
}

// gaveUp says why following has ended before the work has.
func (p *patience) gaveUp(ctx, limited context.Context, err error, what, hint string) error {
	hint = "the work goes on; follow it with: " + hint
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return kit.Fail(fault.Canceled, hint, "no longer following")
	case limited.Err() != nil:
		return kit.Fail(fault.Timeout, hint, "%s is not finished after %s", what, kit.Span(p.wait))
	}
	return err
}

// volume follows a volume until end says that the work has ended, well or not; it is called with nil when there is no
// such volume any more. What the volume waits for is said each time it is something else.
func (p *patience) volume(ctx context.Context, ref kit.Ref, end func(v *api.CSIVolume) (bool, error)) error {
	limited, cancel := p.limit(ctx)
	defer cancel()
	last := ""
	err := follow.Watch(limited, ref.Namespace, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		v, meta, err := p.env.Client().Volumes().Get(limited, ref.ID, o)
		if api.IsNotFound(err) {
			done, err := end(nil)
			return done, &api.QueryMeta{}, err
		}
		if err != nil {
			return false, nil, kit.Doing(err, "follow", "volume", ref.ID)
		}
		if done, err := end(v); done || err != nil {
			return true, meta, err
		}
		last = p.progress(v, last)
		return false, meta, nil
	})
	return p.gaveUp(ctx, limited, err, fmt.Sprintf("volume %q", ref.ID), "berth volume status "+ref.Typed())
}

// progress says where a volume stands, if that is new.
func (p *patience) progress(v *api.CSIVolume, last string) string {
	text := ""
	for i, line := range v.State {
		if i > 0 {
			text += "; "
		}
		text += line
	}
	if text != last && last != "" { // the answer has said the first
		p.env.Err.Printf("    %s: %s\n", kit.At(time.Now()), kit.Clean(text))
	}
	return text
}

// follow goes on with a write that was accepted, unless nobody waits for it.
func (p *patience) follow(ctx context.Context, ref kit.Ref, op, otherwise string) error {
	if p.detach {
		return nil
	}
	return p.ready(ctx, ref, op, otherwise)
}

// ready follows a volume until it is made, or changed, and reports what it came to.
func (p *patience) ready(ctx context.Context, ref kit.Ref, op, otherwise string) error {
	var made *api.CSIVolume
	err := p.volume(ctx, ref, func(v *api.CSIVolume) (bool, error) {
		switch {
		case v == nil:
			return true, kit.Fail(fault.NotFound, "", "%s volume %q: it was deleted meanwhile", op, ref.ID)
		case v.Phase == "conflict" || v.Phase == "failed":
			return true, kit.Fail(fault.Conflict, "", "%s volume %q: %s", op, ref.ID, kit.OneSentence(v.LastError))
		case v.Phase == "ready" && v.LastError != "":
			return true, kit.Fail(fault.Conflict, "", "%s volume %q: %s", op, ref.ID, kit.OneSentence(v.LastError))
		}
		made = v
		if v.Phase == "ready" {
			return grown(v)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	report(p.env, ref.ID, &api.CSIVolumeRegisterResponse{Volumes: []*api.CSIVolume{made}}, otherwise)
	return nil
}

// grown reports whether the nodes that have a volume have grown with it, or why one does not by itself.
func grown(v *api.CSIVolume) (bool, error) {
	done := true
	var refused error
	for _, p := range v.Places {
		switch p.Growth {
		case "":
		case "refused":
			typed := ids.Typed(ids.Namespace(v.Namespace), v.ID)
			refused = kit.Fail(fault.Busy, "the work goes on then; follow it with: berth volume status "+typed,
				"the provider's volume has %s; the file system on node %s follows: %s", kit.Size(v.Capacity),
				kit.ID(p.Node, false), kit.OneSentence(p.LastError))
		default:
			done = false
		}
	}
	if !done {
		return false, nil
	}
	return true, refused
}

// snapshot asks for a snapshot of a name until it is there: the same request is the same snapshot.
func (p *patience) snapshot(
	ctx context.Context, ref kit.Ref, snap *api.CSISnapshot,
) (*api.CSISnapshotCreateResponse, error) {
	limited, cancel := context.WithTimeout(ctx, max(p.wait, time.Millisecond))
	defer cancel()
	asked, cancel := context.WithTimeout(ctx, p.wait+answerWithin) // an answer that is due at the end still counts
	defer cancel()
	what := fmt.Sprintf("The snapshot of volume %q", ref.ID)
	last := ""
	options := p.write(ref)
	for {
		out, _, err := p.env.Client().Volumes().CreateSnapshot(asked, snap, options)
		if err != nil && asked.Err() != nil {
			return nil, p.gaveUp(ctx, asked, err, what, "berth volume snapshot list")
		}
		if err != nil || len(out.Results) == 0 || out.Results[0].Outcome != api.CSIVolumeAccepted {
			return out, kit.Doing(err, "snapshot", "volume", ref.ID)
		}
		if last == "" {
			p.accepted(what, out.Results)
		} else if out.Results[0].Waits != last {
			p.env.Err.Printf("    %s: %s\n", kit.At(time.Now()), kit.Clean(out.Results[0].Waits))
		}
		last = out.Results[0].Waits
		if p.detach {
			return nil, nil
		}
		options.Params["following"] = "true"
		if !retry.Sleep(limited, 100*time.Millisecond) { // an agent that does not wait is not asked in a hot loop
			return nil, p.gaveUp(ctx, limited, limited.Err(), what, "berth volume snapshot list")
		}
	}
}
