// Package unmount owns the node's own unmounting of what a storage plugin left mounted: in a process that can be
// killed, because the kernel may keep whoever unmounts waiting for ever. The node keeper imports it.
package unmount

import (
	"context"
	"strconv"
	"time"

	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/killable"
)

// patience is how long unmounting may take.
const patience = 30 * time.Second

// Unmounter unmounts in processes of the helper program.
type Unmounter struct{ Helpers *killable.Helpers }

// Unmount takes a mount away if it is still the one on top of its path. An error leaves it unknown whether it is there.
func (u *Unmounter) Unmount(ctx context.Context, m entry.Mount) error {
	_, err := u.Helpers.Run(ctx, m.Path, patience, "unmount", m.Path, strconv.FormatUint(m.ID, 10), m.Device, m.Root)
	return err
}
