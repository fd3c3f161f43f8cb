package fetch

import "berth/internal/base/redact"

// sent is a request on its way to the child. Its keys show themselves to nobody, and so go beside it.
type sent struct {
	*Request
	Keys []string `json:",omitempty"` // of the signing, its token, and the bearer's
}

func (r *Request) sent() sent {
	out := sent{Request: r, Keys: []string{"", "", r.Source.Bearer.Reveal()}}
	if s := r.Source.Signing; s != nil {
		out.Keys[0], out.Keys[1] = s.Keys.Secret.Reveal(), s.Keys.Token.Reveal()
	}
	return out
}

// received is the request as it was.
func (s sent) received() *Request {
	if len(s.Keys) == 3 {
		if by := s.Source.Signing; by != nil {
			by.Keys.Secret, by.Keys.Token = redact.New(s.Keys[0]), redact.New(s.Keys[1])
		}
		s.Source.Bearer = redact.New(s.Keys[2])
	}
	return s.Request
}
