package httpapi

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/holdfast-dev/holdfast/api"
)

var (
	errNoRoute  = &wireError{code: api.NotFound, detail: "There is nothing at this path."}
	errNoMethod = &wireError{code: api.MethodNotAllowed, detail: "This path does not know the method; see the header Allow."}
)

// unrouted answers for what Echo found no handler for. Echo has set Allow on a 405 by then.
func (s *server) unrouted(err error, c echo.Context) {
	x := c.Response().Writer.(*exchange) // put there by edge, the only way in
	var found *echo.HTTPError
	switch {
	case errors.As(err, &found) && found.Code == http.StatusNotFound:
		err = errNoRoute
	case errors.As(err, &found) && found.Code == http.StatusMethodNotAllowed:
		err = errNoMethod
	}
	s.fail(x, err)
}
