package appliance

import (
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// smallBodyWithin is how long the body of what members tell each other may take. These bodies are small, and over a tailnet
// no connection tells that its other end has died in the middle of one.
const smallBodyWithin = 5 * time.Second

// hurry gives up the request's body when it does not come in time, also the rest of it that the server reads before it
// answers. What is answered to a body that has come may take as long as it likes.
func hurry(c echo.Context) {
	r := c.Request()
	if r.Body == http.NoBody {
		return
	}
	rc := http.NewResponseController(c.Response())
	_ = rc.SetReadDeadline(time.Now().Add(smallBodyWithin)) // an in-memory server has none to set
	r.Body = &hurried{r.Body, rc}
}

type hurried struct {
	io.ReadCloser
	rc *http.ResponseController
}

func (b *hurried) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
