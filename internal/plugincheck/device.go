package plugincheck

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/pluginreport"
	"berth/internal/base/retry"
	model "berth/internal/model/device"
	"berth/internal/port/device"
	"berth/internal/port/device/external"
)

// Device tests a plugin of devices.
func Device(ctx context.Context, asked pluginreport.Asked, log *slog.Logger) (*pluginreport.Report, error) {
	b, remove, err := newBench(asked, log)
	if err != nil {
		return nil, err
	}
	d := &devices{bench: b}
	d.begin(ctx)
	r := &pluginreport.Report{Kind: "device"}
	judge(ctx, r, []check{
		{"it starts, says who it is, and takes its configuration", d.starts},
		{"it finds devices, each with an id of its own", d.finds},
		{"a device that is not healthy has a reason", d.reasons},
		{"a device that is reserved comes with what is there on the node", d.reserves},
		{"it can be reserved again, with the same answer", d.repeats},
		{"several are reserved at once", d.several},
		{"a device that it does not have is refused, and it lives on", d.refuses},
		{"it reports figures of the devices that it finds, or none at all", d.figures},
		{"killed and started again it finds the same devices", d.returns},
		{"it is found again by the next run of the agent, as the same process", d.reattaches},
	})
	r.Name, r.Version = d.p.Name(), d.p.Version()
	if endErr := d.stop(); endErr != nil {
		return r, endErr
	}
	return r, remove()
}

// devices is a run of a plugin with what it said.
type devices struct {
	*bench
	p     *external.Plugin
	said  chan device.State
	found []model.Group
	keeps bool // the plugin goes on when the run ends
	end   func() error
}

func (d *devices) begin(ctx context.Context) {
	said := make(chan device.State, 100)
	d.said, d.keeps = said, true
	d.renew()
	cfg := external.Config{Config: d.cfg}
	cfg.Holds = func(string) bool { return d.keeps }
	d.p = external.New(cfg)
	d.end = d.start(ctx, func(ctx context.Context) error {
		return d.p.Follow(ctx, func(s device.State) {
			select {
			case said <- s:
			default: // what was said first is judged
			}
		})
	})
}

// stop ends the run, and the plugin with it.
func (d *devices) stop() error {
	d.keeps = false
	return d.end()
}

// next waits for a word of the plugin that is there.
func (d *devices) next(ctx context.Context) ([]model.Group, error) {
	last := "it says nothing"
	for {
		select {
		case <-ctx.Done():
			return nil, broken("%s%s", last, d.bench.said())
		case s := <-d.said:
			if s.Reason == "" {
				return s.Groups, nil
			}
			last = s.Reason
		}
	}
}

func (d *devices) starts(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	groups, err := d.next(limited)
	if err != nil {
		return "", err
	}
	d.found = groups
	return fmt.Sprintf("it calls itself %q", d.p.Name()), nil
}

func (d *devices) finds(context.Context) (string, error) {
	var all []string
	for _, g := range d.found {
		all = append(all, fmt.Sprintf("%d of %s", len(g.Instances), g.Kind()))
	}
	if len(all) == 0 {
		return "", &skipped{"it finds none here: what follows needs one"}
	}
	return strings.Join(all, ", "), nil
}

func (d *devices) reasons(context.Context) (string, error) {
	ill := 0
	for _, g := range d.found {
		for _, i := range g.Instances {
			if !i.Healthy && i.Reason == "" {
				return "", broken("%s[%s] is unhealthy, and nothing says why", g.Kind(), i.ID)
			}
			if !i.Healthy {
				ill++
			}
		}
	}
	return fmt.Sprintf("%d are unhealthy", ill), nil
}

// healthy lists ids of healthy devices of one kind.
func (d *devices) healthy() (out []string) {
	for _, g := range d.found {
		for _, i := range g.Instances {
			if i.Healthy {
				out = append(out, i.ID)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

func (d *devices) one() ([]string, error) {
	all := d.healthy()
	if len(all) == 0 {
		return nil, &skipped{"no device is healthy"}
	}
	return all[:1], nil
}

func (d *devices) reserves(ctx context.Context) (string, error) {
	ids, err := d.one()
	if err != nil {
		return "", err
	}
	r, err := d.p.Reserve(ctx, ids)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		if device.Reserved(name) {
			return "", broken("it gives the variable %s, which no task gets of a plugin", name)
		}
	}
	for _, m := range r.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return "", broken("it mounts %q, which is not there", m.Source)
		}
	}
	for _, n := range r.Devices {
		st, err := os.Stat(n.HostPath)
		if err != nil || st.Mode()&os.ModeDevice == 0 {
			return "", broken("it gives %q, which is no device's node", n.HostPath)
		}
		if strings.Trim(n.Permissions, "rwm") != "" || n.Permissions == "" {
			return "", broken("permissions %q of %q are not of the letters r, w and m", n.Permissions, n.HostPath)
		}
	}
	return fmt.Sprintf("%d variables, %d mounts, %d nodes of devices", len(r.Env), len(r.Mounts), len(r.Devices)), nil
}

func (d *devices) repeats(ctx context.Context) (string, error) {
	ids, err := d.one()
	if err != nil {
		return "", err
	}
	first, err := d.p.Reserve(ctx, ids)
	if err != nil {
		return "", err
	}
	again, err := d.p.Reserve(ctx, ids)
	if err != nil {
		return "", broken("asked again it answers: %s", err)
	}
	if !reflect.DeepEqual(first, again) {
		return "", broken("it gives something else the second time")
	}
	return "", nil
}

func (d *devices) several(ctx context.Context) (string, error) {
	all := d.healthy()
	if len(all) < 2 {
		return "", &skipped{"there are no two healthy ones of a kind"}
	}
	_, err := d.p.Reserve(ctx, all)
	return fmt.Sprintf("%d at once", len(all)), err
}

func (d *devices) refuses(ctx context.Context) (string, error) {
	before, err := d.process()
	if err != nil {
		return "", err
	}
	const none = "there-is-no-such-device"
	switch _, err := d.p.Reserve(ctx, []string{none}); {
	case err == nil:
		return "", broken("it gives a device %q that it does not have", none)
	case fault.Has(err, fault.NotReady):
		return "", broken("asked for device %q it ended%s", none, d.bench.said())
	}
	if now, err := d.process(); err != nil || now != before || !alive(now) {
		return "", broken("it ended%s", d.bench.said())
	}
	return "", nil
}

func (d *devices) figures(ctx context.Context) (string, error) {
	for ctx.Err() == nil && len(d.p.Stats()) == 0 {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		retry.Sleep(limited, 100*time.Millisecond)
		cancel()
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < answerLimit/2 {
			return "", &skipped{"it reports none"}
		}
	}
	count := 0
	for _, s := range d.p.Stats() {
		i := slices.IndexFunc(d.found, func(g model.Group) bool { return g.Kind() == s.Kind })
		if i < 0 {
			return "", broken("it reports figures of %s, which it does not find", s.Kind)
		}
		for id := range s.Instances {
			if !slices.ContainsFunc(d.found[i].Instances, func(o model.Instance) bool { return o.ID == id }) {
				return "", broken("it reports figures of %s[%s], which it does not find", s.Kind, id)
			}
			count++
		}
	}
	return fmt.Sprintf("of %d devices", count), nil
}

// same compares what was found before with what is found now.
func (d *devices) same(now []model.Group) error {
	if was, is := named(d.found), named(now); !slices.Equal(was, is) {
		return broken("it found %s, and then %s", strings.Join(was, ", "), strings.Join(is, ", "))
	}
	return nil
}

func named(groups []model.Group) (out []string) {
	for _, g := range groups {
		for _, i := range g.Instances {
			out = append(out, g.Kind().String()+"["+i.ID+"]")
		}
	}
	return out
}

func (d *devices) returns(ctx context.Context) (string, error) {
	if err := d.kill(); err != nil {
		return "", err
	}
	for { // until it says that it is there, after it was said that it is not
		select {
		case <-ctx.Done():
			return "", broken("its end was not noticed")
		case s := <-d.said:
			if s.Reason == "" {
				continue
			}
		}
		break
	}
	groups, err := d.next(ctx)
	if err != nil {
		return "", err
	}
	return "", d.same(groups)
}

func (d *devices) reattaches(ctx context.Context) (string, error) {
	before, err := d.process()
	if err != nil {
		return "", err
	}
	if err := d.end(); err != nil {
		return "", err
	}
	if !alive(before) {
		return "", broken("it ended when its host did%s", d.bench.said())
	}
	d.begin(context.WithoutCancel(ctx))
	groups, err := d.next(ctx)
	if err != nil {
		return "", err
	}
	if now, err := d.process(); err != nil || now != before {
		return "", broken("it was process %d, and is %d: it did not answer again%s", before, now, d.bench.said())
	}
	return "", d.same(groups)
}
