package wire

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/peer"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// opSession is the operation in faults about who acts as a node.
const opSession = "act as"

// RefuseSession is the answer to an agent start of a node that is not the one that the servers obey.
func RefuseSession(id ids.Node, why, hint string) error {
	return &fault.Error{ // one error, not two nested: its operation must survive the wire
		Kind:    fault.Conflict,
		Op:      opSession,
		Subject: fmt.Sprintf("node %q", id),
		Err:     errors.New(why),
		Hint:    hint,
	}
}

// SessionRefused tells whether a call was refused because the servers obey another agent start of the node. What was
// called for is neither done nor refused by it.
func SessionRefused(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.Conflict && f.Op == opSession
}

// UnknownSession is the answer to a node that the servers' state knows, and no agent start of it: the state was
// restored, or is older than the node's registration.
func UnknownSession(id ids.Node) error {
	return &fault.Error{ // one error, as above
		Kind:    fault.NotReady,
		Op:      opSession,
		Subject: fmt.Sprintf("node %q", id),
		Err:     errors.New("this state of the servers does not know its session"),
		Hint:    "the node registers first",
	}
}

// SessionUnknown tells whether a call was not served because the node is to register first.
func SessionUnknown(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.NotReady && f.Op == opSession
}

// InProcess tells whether a call that is being served came through a Pipe: the caller runs in this process.
func InProcess(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && p.Addr != nil && p.Addr.Network() == NewPipe().Listener().Addr().Network()
}
