package calls

import (
	"berth/internal/base/ids"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/filter"
	"berth/internal/wire"
)

// Handler answers a request with a value that becomes JSON.
type Handler func(*Request) (any, error)

// call makes one call for a request: ask reads what it asks for, show makes the answer.
func Call[Req, Rep any](
	method wire.Method[Req, Rep], ask func(*Request) (*Req, error), show func(*Request, *Rep) (any, error),
) Handler {
	return func(r *Request) (any, error) {
		req, err := ask(r)
		if err != nil {
			return nil, err
		}
		out, err := method.Call(r.Context(), r.Servers, req)
		if err != nil {
			return nil, err
		}
		return show(r, out)
	}
}

// reply is what reads get: it names the index of what was read.
type reply[Rep any] interface {
	*Rep
	Read() wire.Meta
}

// Read is a call that reads the servers' state.
func Read[Req, Rep any, P reply[Rep]](
	method wire.Method[Req, Rep], ask func(*Request) (*Req, error), show func(*Request, *Rep) (any, error),
) Handler {
	return Call(method, ask, func(r *Request, out *Rep) (any, error) {
		r.Observed(P(out).Read())
		return show(r, out)
	})
}

// as shows a reply in its public form.
func As[Rep, Public any](convert func(*Rep) Public) func(*Request, *Rep) (any, error) {
	return func(_ *Request, out *Rep) (any, error) { return convert(out), nil }
}

// write is a call that changes the servers' state.
func Write[Req, Rep any](
	method wire.Method[Req, Rep], ask func(*Request) (*Req, error), show func(*Rep) (index uint64, answer any),
) Handler {
	return Call(method, ask, func(r *Request, out *Rep) (any, error) {
		index, answer := show(out)
		r.Written(index)
		audit.Of(r.Context()).Made(answer)
		return answer, nil
	})
}

// empty answers a write with nothing but its index.
func Empty(out *wire.Written) (uint64, any) { return out.Index, None{} }

// done answers an order to a node with nothing.
func Done(*Request, *wire.Empty) (any, error) { return None{}, nil }

// shown makes the answer of one item.
func Shown[T any](item *T, what string, form func(*T) any) (any, error) {
	if item == nil {
		return nil, Missing(what + " not found")
	}
	return form(item), nil
}

// one shows the object that was read.
func One[T any](what string, form func(*T) any) func(*Request, *wire.One[T]) (any, error) {
	return func(_ *Request, out *wire.One[T]) (any, error) { return Shown(out.Item, what, form) }
}

// public gives a form of its own type the one that answers have.
func Public[T, Public any](form func(T) Public) func(T) any { return func(v T) any { return form(v) } }

// listed shows a list whose pages servers cut.
func Listed[T, Row any](key func(T) string, form func(T) Row) func(*Request, *wire.List[T]) (any, error) {
	t := Table[T]{Key: key, Row: Public(form)}
	return func(r *Request, out *wire.List[T]) (any, error) { return t.Show(r, out.Items, out.NextToken) }
}

// Bytes has read read what a request brings; form gets the id in the path, too, and who asks.
func Form[Body, Req any](
	read func(*Request, any) error, form func(body *Body, id, by string) (*Req, error),
) func(*Request) (*Req, error) {
	return func(r *Request) (*Req, error) {
		in := new(Body)
		if err := read(r, in); err != nil {
			return nil, err
		}
		return form(in, r.PathValue("id"), access.Peer(r.Request))
	}
}

// byName reads the name in the path with the parameters of a read.
func ByName[ID ~string](r *Request) (*wire.Ref[ID], error) {
	q, err := r.Query()
	return &wire.Ref[ID]{Query: q, ID: ID(r.PathValue("id"))}, err
}

// byID reads the full id in the path with the parameters of a read.
func ByID[ID ~string](kind string) func(*Request) (*wire.Ref[ID], error) {
	return func(r *Request) (*wire.Ref[ID], error) {
		if err := WholeID(kind, r.PathValue("id")); err != nil {
			return nil, err
		}
		return ByName[ID](r)
	}
}

// Table shows a list: key is an item's place in pages, row its line, full what a filter sees of it. The list comes in
// the order of keys.
type Table[T any] struct {
	Key  func(T) string
	Row  func(T) any
	Full func(T) any // nil: the row
}

// Show shows a list. Servers have cut the page of it, unless this layer chooses what is shown: then items are all, and
// the page is cut here.
func (t Table[T]) Show(r *Request, items []T, next string) (any, error) {
	if r.chosen != nil {
		full := t.Full
		if full == nil {
			full = t.Row
		}
		visible, err := Filtered(r, items, full)
		if err != nil {
			return nil, err
		}
		items, next = wire.Cut(*r.chosen, visible, t.Key)
	}
	r.Next = next
	return Rows(items, t.Row), nil
}

// Filtered leaves what the filter of a request is true of, as full shows it.
func Filtered[T any](r *Request, items []T, full func(T) any) ([]T, error) {
	visible, err := filter.Of(r.Context(), r.Arg("filter"), items, full)
	if err != nil {
		return nil, BadRequest(err.Error())
	}
	return visible, nil
}

// rows makes a list that is never null.
func Rows[T, Row any](items []T, row func(T) Row) []Row {
	out := make([]Row, 0, len(items))
	for _, it := range items {
		out = append(out, row(it))
	}
	return out
}

// Fixed asks what is known already.
func Fixed[Req any](req *Req) func(*Request) (*Req, error) {
	return func(*Request) (*Req, error) { return req, nil }
}

// Changes reads a change of what the path names from a body, in the namespace of the request.
func Changes[Body, Req any](form func(*Body, ids.Namespace, string) (*Req, error)) func(*Request) (*Req, error) {
	return func(r *Request) (*Req, error) {
		var in Body
		if err := r.ReadOptional(&in); err != nil {
			return nil, err
		}
		return form(&in, r.Namespace, r.PathValue("id"))
	}
}
