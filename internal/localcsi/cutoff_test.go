package localcsi

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/image"
)

// Given a volume for both uses whose first formatting was cut off (the plugin was killed), when it is used as a device,
// which writes to it, and after that is asked for as a file system, then what was written is not formatted over.
func TestACutOffFormattingDoesNotOutliveTheUseAsADevice(t *testing.T) {
	w := newCrashWorld(t, "")
	w.run(order{KillAt: "stage: formatting recorded", KillOn: 1})
	both := []*csi.VolumeCapability{mountCap("ext4", single), blockCap(single)}
	id := w.create(createReq("both", 64*mib, both...))
	if err := w.tryStage(id, both[0]); err == nil {
		t.Fatal("the first staging was not cut off")
	}
	<-w.died
	w.conn.Close()
	w.run(order{})
	w.unstage(id)

	held := must2(image.Hold(w.image(id)))(t) // the program that was formatting may be at it still
	wantCode(t, w.tryStage(id, both[1]), codes.Aborted)
	held.Close()

	var dev string
	w.call("use as a device", func(context.Context) (err error) {
		if err = w.tryStage(id, both[1]); err == nil {
			dev, err = w.tryPublish(id, "a", both[1], false)
		}
		return err
	})
	data := bytes.Repeat([]byte("what a database wrote "), 1<<16)
	f, err := os.OpenFile(dev, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	w.unpublish(id, "a")
	w.unstage(id)

	err = w.tryStage(id, both[0])
	if err == nil {
		w.unstage(id)
	}
	has, rerr := os.ReadFile(w.image(id))
	if rerr != nil {
		t.Fatal(rerr)
	}
	if !bytes.HasPrefix(has, data) {
		t.Errorf("what was written to the device was formatted over (staging as a file system said: %v)", err)
	}
	wantCode(t, err, codes.FailedPrecondition)
	w.remove(id)
	w.nothingLeft()
}
