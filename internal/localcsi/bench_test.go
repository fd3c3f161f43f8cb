package localcsi

import (
	"fmt"
	"testing"
)

// What a user waits for: making a volume, and putting it in use. The figures are of a caller on the socket.
func BenchmarkCreateAndMount(b *testing.B) {
	for _, fs := range []string{"ext4", "xfs"} {
		size := 64 * mib
		if fs == "xfs" {
			size = 300 * mib
		}
		c := mountCap(fs, single)
		b.Run(fs+"/create", func(b *testing.B) {
			w := newWorld(b, "", nil)
			for i := 0; b.Loop(); i++ {
				id := w.create(createReq(fmt.Sprintf("v%d", i), size, c))
				b.StopTimer()
				w.remove(id)
				b.StartTimer()
			}
		})
		b.Run(fs+"/use", func(b *testing.B) {
			w := newWorld(b, "", nil)
			id := w.create(createReq("v", size, c))
			for b.Loop() {
				w.use(id, "a", c, false)
				b.StopTimer()
				w.unpublish(id, "a")
				w.unstage(id)
				b.StartTimer()
			}
			w.remove(id)
		})
		b.Run(fs+"/release", func(b *testing.B) {
			w := newWorld(b, "", nil)
			id := w.create(createReq("v", size, c))
			w.use(id, "a", c, false)
			for b.Loop() {
				w.unpublish(id, "a")
				w.unstage(id)
				b.StopTimer()
				w.use(id, "a", c, false)
				b.StartTimer()
			}
			w.release(id, "a")
		})
	}
}
