package bridge

import (
	"github.com/google/nftables"

	"berth/internal/base/fault"
)

// speak calls fn with the conversation with nftables, which is kept: the kernel lets nobody close one before what its
// transactions have removed is freed, which takes it milliseconds. After an error it begins anew, as answers may be on
// their way that nobody has read.
func (b *Bridge) speak(fn func(*nftables.Conn) error) error {
	if b.nft == nil {
		conn, err := nftables.New(nftables.AsLasting())
		if err != nil {
			return fault.Wrap(err, fault.Unavailable, "speak with", "nftables")
		}
		b.nft = conn
	}
	err := fn(b.nft)
	if err != nil {
		b.Close()
	}
	return err
}

// Close ends what is kept open to speak with the kernel. The bridge may be used again.
func (b *Bridge) Close() {
	if b.nft != nil {
		_ = b.nft.CloseLasting() // a socket with which nothing is under way: there is nothing to lose
		b.nft = nil
	}
}
