// Package holding owns the question who holds a device or a mount: it is asked in a process that can be killed, because
// the kernel may keep whoever asks waiting for ever. The node keeper imports it.
package holding

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/killable"
	"berth/internal/model/volume"
)

// patience is how long one look may take; what was found until then counts.
const patience = 5 * time.Second

// most is how many holders are kept.
const most = 8

// Finder asks in processes of the helper program.
type Finder struct {
	Helpers *killable.Helpers
	// Alloc is the alloc that has a control group, or empty.
	Alloc func(cgroup string) ids.Alloc
}

// Free finds out whether anybody has a device mounted or claimed.
func (f *Finder) Free(ctx context.Context, d entry.Device) (entry.Sighting, error) {
	return f.look(ctx, "probe", d, nil)
}

// Look names who has a device, and mounts at and beneath paths. With an error it returns what was found before it.
func (f *Finder) Look(ctx context.Context, d entry.Device, paths ...string) (entry.Sighting, error) {
	return f.look(ctx, "scan", d, paths)
}

func (f *Finder) look(ctx context.Context, what string, d entry.Device, paths []string) (entry.Sighting, error) {
	args := append([]string{"holders", what, d.Device, strconv.FormatUint(d.Seq, 10)}, paths...)
	about := strings.Join(append([]string{what, d.Device}, paths...), " ")
	out, err := f.Helpers.Run(ctx, about, patience, args...)
	var seen entry.Sighting
	for line := range strings.Lines(out) {
		if perr := f.read(&seen, strings.TrimSuffix(line, "\n")); perr != nil && err == nil {
			err = fault.Wrap(perr, fault.Internal, "read", "what the helper found")
		}
	}
	return seen, err
}

// read takes over one line of the helper's.
func (f *Finder) read(seen *entry.Sighting, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "all":
		seen.All = true
	case "device":
		seen.Held = rest == "held"
	case "holder":
		var h volume.Holder
		var group string
		if _, err := fmt.Sscanf(rest, "%d %q %q %q %q", &h.PID, &h.Command, &h.Namespace, &group, &h.How); err != nil {
			return err
		}
		if f.Alloc != nil {
			h.Alloc = f.Alloc(group)
		}
		h.Command, h.How = printable(h.Command), printable(h.How)
		if len(seen.Holders) < most || h.Alloc != "" {
			seen.Holders = append(seen.Holders, h)
		}
	}
	return nil
}

// printable keeps a process from writing more than a name into what people read.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
