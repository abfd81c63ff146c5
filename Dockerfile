# The image: the static binary and an empty folder for state, nothing else, nothing pulled.
# `make image` makes the folder this is built from (bin/image) and builds it.
FROM scratch
COPY holdfast /holdfast
COPY --chown=65532:65532 state /state
COPY --chown=65532:65532 state /keys
USER 65532:65532
ENV HOME=/state
EXPOSE 7420 7421
ENTRYPOINT ["/holdfast"]
CMD ["--help"]
