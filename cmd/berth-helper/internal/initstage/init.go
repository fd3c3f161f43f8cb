// Package initstage owns the root of isolated tasks: it is the "init" role of the helper program. The shim starts it in
// new namespaces; it builds a root of bind mounts in its own mount namespace, where neither the node's mount table nor
// anybody else sees it, makes it its own, reports, and then only holds the namespaces: as the first process of the pid
// namespace it reaps orphans, and with its end everything in the namespaces ends.
package initstage

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// Descriptors that the shim hands over.
const (
	specFD   = 3
	reportFD = 4
	usersFD  = 5 // of the task's user namespace, where it has one of its own
)

// Run builds the root and never returns when that succeeded.
func Run() error {
	report := os.NewFile(reportFD, "report")
	if err := build(); err != nil {
		return errors.Join(err, shimproto.Write(report, shimproto.TypeFault, shimproto.FaultOf(err)))
	}
	// Ignored children are reaped by the kernel; a task's signals must not end its namespaces.
	signal.Ignore()
	if err := shimproto.WriteRaw(report, shimproto.TypeDone, nil); err != nil {
		return err
	}
	if err := report.Close(); err != nil {
		return err
	}
	for {
		_ = unix.Pause() // it returns only to be called again
	}
}

func build() error {
	spec := os.NewFile(specFD, "spec")
	encoded, err := io.ReadAll(spec)
	if err := errors.Join(err, spec.Close()); err != nil {
		return fault.Wrap(err, fault.Internal, "read", "the description of the task's root")
	}
	var iso shimproto.Isolate
	if err := shimproto.Unmarshal(encoded, &iso); err != nil {
		return fault.Wrap(err, fault.Internal, "read", "the description of the task's root")
	}
	if iso.Hostname != "" {
		if err := unix.Sethostname([]byte(iso.Hostname)); err != nil {
			return fault.Wrap(err, fault.Invalid, "set hostname", iso.Hostname)
		}
	}
	r := &root{iso: &iso, users: -1}
	if iso.FirstID != 0 {
		r.users = usersFD
		runtime.LockOSThread() // what follows is the thread's
		if err := actAs(iso.FirstID, iso.FirstID); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.collect, r.mountRoot, r.skeleton, r.attachSystem, r.mountDev, r.mountProc,
		r.mountSys, r.attachBinds, r.sealEtc, r.pivot} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
