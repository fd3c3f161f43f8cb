package wire

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/trust"
)

// PersonAllowed asks what the person for whom it is called may do, for what is answered without the servers.
var PersonAllowed = Unary[PersonAllowedRequest, PersonAllowedReply]("Person.Allowed")

// PersonAllowedRequest says what is needed, all of it. Nothing: the reply says who the person is.
type PersonAllowedRequest struct{ Needs []Need }

// AnyServer tells that any server may answer: who looks why no server leads is let in by what this one has.
func (*PersonAllowedRequest) AnyServer() bool { return true }

// PersonAllowedReply is for who may. Who may not gets fault.Denied.
type PersonAllowedReply struct {
	Name      string // for the record; never a secret
	Anonymous bool
	Powerless bool // may do no more than everybody
}

// Need is what a call needs of the rights of a person: one of the capabilities, with what a kind of rules is about.
type Need struct {
	Kind acl.Kind
	Name string // empty of kinds without names
	Any  []acl.Capability
	// Variable is the path of a variable, in the namespace of the name; empty: what is about the namespace itself.
	Variable string
	// Somewhere: for any name will do. Who is refused has no use for the call at all, and who is not may have none.
	Somewhere bool
}

// Management is a kind for which there are no rules: only who may do everything has it.
const Management acl.Kind = "management"

// Person is who a call is made for. A call that names none is the program's own.
type Person struct {
	// Local: a user of this machine who may do everything, known by Name.
	Local bool
	Name  string
	// Token is the secret that the request shows otherwise; empty: it shows none.
	Token redact.Secret
}

// personKey is the metadata of a call that is made for a person. The name of such a key says that its value may be any
// bytes.
const personKey = "berth-person-bin"

// How a person is written there.
const (
	markLocal = "local:"
	markToken = "token:"
)

// For marks the calls that are made with a context as made for a person.
func For(ctx context.Context, p Person) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	mark := markToken + p.Token.Reveal()
	if p.Local {
		mark = markLocal + p.Name
	}
	md.Set(personKey, mark)
	return metadata.NewOutgoingContext(ctx, md)
}

// PersonOf is for whom the call is made that is being served; false: it is the program's own.
//
// That a person is local is believed from within this process, and from a server that passes the call on. Whoever else
// says it is nobody in particular, and so is who says what cannot be read.
func PersonOf(ctx context.Context) (Person, bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	marks := md.Get(personKey)
	if len(marks) == 0 {
		return Person{}, false
	}
	if token, is := strings.CutPrefix(marks[0], markToken); is && len(marks) == 1 {
		return Person{Token: redact.New(token)}, true
	}
	name, local := strings.CutPrefix(marks[0], markLocal)
	if _, network := Caller(ctx); !local || len(marks) > 1 || network && len(Relays(ctx)) == 0 {
		return Person{}, true
	}
	return Person{Local: true, Name: name}, true
}

// FromNode tells that the call that is being served came by the connection of a node: the person for whom it is made is
// known by the token alone.
func FromNode(ctx context.Context) bool {
	who, known := Caller(ctx)
	return known && who.Role == trust.Node
}

// Marked is a connection for calls that are made for persons: it makes no other.
func Marked(c Conn) Conn { return marked{c} }

type marked struct{ Conn }

// Invoke implements Conn.
func (m marked) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := m.check(ctx, method); err != nil {
		return err
	}
	return m.Conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements Conn.
func (m marked) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if err := m.check(ctx, method); err != nil {
		return nil, err
	}
	return m.Conn.NewStream(ctx, desc, method, opts...)
}

func (marked) check(ctx context.Context, method string) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(md.Get(personKey)) == 0 {
		return toStatus(fault.New(fault.Internal, "call", method, "it is not said for whom"))
	}
	return nil
}
