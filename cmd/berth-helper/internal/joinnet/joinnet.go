// Package joinnet owns the helper's role of being in a network: it goes into the namespace that it is shown, and waits.
// A Docker daemon puts containers into the network of a process of another container; that process is this one.
package joinnet

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Run goes into the network namespace at a path, and waits for SIGTERM. It is called on the first thread of the
// process, where package privilege keeps main, because its namespaces are taken for those of the process.
func Run(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return &os.PathError{Op: "join", Path: path, Err: err}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	<-stop
	return nil
}
