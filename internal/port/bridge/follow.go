package bridge

import (
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/model/network"
)

// Update is what the kernel says of a link of the node.
type Update = netlink.LinkUpdate

// backlog is how many updates may wait for who follows them.
const backlog = 64

// Follow sends what happens to links of the node until done is closed, or the kernel had to drop some of it: then the
// channel is closed, and who follows looks at all links once more. It has to be read until it is closed.
func Follow(done <-chan struct{}) (<-chan Update, error) {
	updates := make(chan Update, backlog)
	err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{})
	return updates, fault.Wrap(err, fault.Internal, "follow", "the node's links")
}

// Gone reports whether an update says that a link is gone which was an alloc's or the bridge.
func (b *Bridge) Gone(u Update) bool {
	if u.Header.Type != unix.RTM_DELLINK || u.Link == nil {
		return false
	}
	name := u.Link.Attrs().Name
	return name == b.Name || network.IsLink(name)
}
