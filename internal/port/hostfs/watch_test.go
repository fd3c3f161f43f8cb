package hostfs

import (
	"context"
	"testing"
)

// TestTheTableIsLookedAtWhenItsWatchBegins: whatever was mounted between an earlier look and the watch is seen, too.
func TestTheTableIsLookedAtWhenItsWatchBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no change can be waited for
	looks := 0
	if err := WatchTable(ctx, func() { looks++ }); err != nil || looks != 1 {
		t.Errorf("looked %d times, %v", looks, err)
	}
}
