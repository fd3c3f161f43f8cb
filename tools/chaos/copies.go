package main

import (
	"context"
	"fmt"

	"berth/api"
)

// snapshot orders one of a volume, in use or not.
func (p *play) snapshot(ctx context.Context, round int) error {
	if err := p.join(ctx); err != nil { // what it is made from must exist
		return err
	}
	v := p.job("solo").volume
	p.copies++
	name := fmt.Sprintf("snap-%d", p.copies)
	least, err := p.acked(v.lines())
	if err != nil {
		return err
	}
	s := &snapshot{lines: v.lines(), least: least}
	p.snaps = append(p.snaps, s)
	return p.ordered(ctx, round, "snapshot "+name+" of solo", func(ctx context.Context) error {
		return order(ctx, "snapshot "+name, func(ctx context.Context) error {
			ask := &api.CSISnapshot{SourceVolumeID: v.id, PluginID: localCSI, Name: name}
			r, _, err := p.m.api.Volumes().CreateSnapshot(ctx, ask, nil)
			if err != nil {
				p.doubts++ // asked again, Berth makes another one
				return err
			}
			if len(r.Snapshots) != 1 || r.Snapshots[0].ID == "" {
				return fmt.Errorf("the answer names no snapshot: %+v", r)
			}
			s.id = r.Snapshots[0].ID
			return nil
		})
	})
}

func (p *play) dropSnapshot(ctx context.Context, s *snapshot) error {
	return order(ctx, "delete snapshot "+s.id, func(ctx context.Context) error {
		err := p.m.api.Volumes().DeleteSnapshot(ctx, localCSI, s.id, nil, nil)
		if api.IsNotFound(err) {
			return nil // an earlier try deleted it
		}
		return err
	})
}

func (p *play) deleteSnapshot(ctx context.Context, round int) error {
	if err := p.join(ctx); err != nil { // its id may just be made
		return err
	}
	i := p.rng.IntN(len(p.snaps))
	s := p.snaps[i]
	p.snaps = append(p.snaps[:i:i], p.snaps[i+1:]...)
	return p.ordered(ctx, round, "delete snapshot "+s.id, func(ctx context.Context) error {
		return p.dropSnapshot(ctx, s)
	})
}

// living is how many copies there are.
func (p *play) living() (n int) {
	for _, j := range p.jobs {
		if j.check {
			n++
		}
	}
	return n
}

// restore makes a volume from a snapshot and has its lines checked.
func (p *play) restore(ctx context.Context, round int) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	s := p.snaps[p.rng.IntN(len(p.snaps))]
	if s.lines == "" {
		return nil
	}
	return p.copyOf(ctx, round, s.lines, s.least, &volume{from: s.id}, "snapshot "+s.id)
}

// clone makes a volume from another one, in use or not, and has its lines checked.
func (p *play) clone(ctx context.Context, round int) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	v := p.job("solo").volume
	least, err := p.acked(v.lines())
	if err != nil {
		return err
	}
	return p.copyOf(ctx, round, v.lines(), least, &volume{clone: v.id}, "volume "+v.id)
}

func (p *play) copyOf(
	ctx context.Context, round int, lines string, least uint64, v *volume, of string,
) error {
	p.copies++
	v.id = fmt.Sprintf("copy-%d", p.copies)
	v.name = v.id
	v.access = single
	v.size = 32 << 20
	v.life = 1
	v.exists = true
	j := &job{
		id:     v.id,
		volume: v,
		count:  1,
		batch:  true,
		check:  true,
		source: lines,
		least:  least,
	}
	p.volumes, p.jobs = append(p.volumes, v), append(p.jobs, j)
	what := fmt.Sprintf("make %s from %s and check it for %d lines", v.id, of, least)
	return p.ordered(ctx, round, what, func(ctx context.Context) error {
		if err := p.create(ctx, v); err != nil {
			return err
		}
		return p.register(ctx, j)
	})
}

// dropCopy purges the check of a copy and deletes it, whether it was checked or not.
func (p *play) dropCopy(ctx context.Context, round int) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	var checks []*job
	for _, j := range p.jobs {
		if j.check {
			checks = append(checks, j)
		}
	}
	j := checks[p.rng.IntN(len(checks))]
	p.jobs = without(p.jobs, j)
	j.volume.exists = false
	j.count, j.purged = 0, true
	return p.ordered(ctx, round, "drop "+j.id, func(ctx context.Context) error {
		if err := p.deregister(ctx, j); err != nil {
			return err
		}
		return p.remove(ctx, j.volume)
	})
}

func without[T comparable](all []T, one T) (out []T) {
	for _, x := range all {
		if x != one {
			out = append(out, x)
		}
	}
	return out
}
