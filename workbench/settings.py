"""Typed settings from the environment (prefix `CROSSNER_`); nothing here has a secret default."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from crossner_core.errors import StorageError
from db.engine import Store


class Settings(BaseSettings):
    """Where the workbench keeps its data and how it listens."""

    model_config = SettingsConfigDict(env_prefix="CROSSNER_", extra="ignore")

    home: Path = Field(
        default=Path(".workbench"), description="folder of the store, checkpoints, corpora, gazetteers and encoders"
    )
    database_url: str | None = Field(default=None, description="SQLAlchemy URL; default is a SQLite file in home")
    host: str = Field(default="127.0.0.1", description="address the web app listens on")
    port: int = Field(default=8501, ge=1, le=65535, description="port the web app listens on")
    session_hours: float = Field(default=12.0, gt=0, description="hours until a sign-in expires")
    secure_cookie: bool = Field(default=False, description="send the session cookie over HTTPS only")
    api_per_minute: int = Field(
        default=600, ge=1, le=1_000_000, description="requests that one token of the API may make in a minute"
    )
    webhook_private_hosts: str | None = Field(
        default=None,
        description="hosts, separated by commas, that webhooks may reach although their addresses are private",
    )
    webhook_plain_http: bool = Field(default=False, description="allow webhooks to addresses that begin with http")
    data: Path | None = Field(
        default=None, description="folder with the corpora that studies read, one folder per corpus"
    )
    outside: Path | None = Field(default=None, description="file that names outside models")
    oidc: Path | None = Field(default=None, description="file that describes the sign-in provider")
    study_workers: int = Field(default=1, ge=1, description="cells of a study that the worker trains in parallel")
    ray: str | None = Field(
        default=None, description="address of the Ray cluster that the worker trains studies on; local starts one"
    )
    worker_threads: int = Field(default=0, ge=0, le=1024, description="CPU threads of the worker; 0: PyTorch chooses")
    save_seconds: float | None = Field(
        default=None, ge=0, description="seconds between saves of a training's state; default 30, of a pre-training 120"
    )

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.home.resolve() / 'workbench.sqlite3'}"

    def environment(self) -> dict[str, str]:
        """Return the variables from which another process reads the same settings, with `home` made absolute."""
        values = self.model_dump(mode="json", exclude_none=True) | {"home": str(self.home.resolve())}
        return {f"CROSSNER_{name.upper()}": str(value) for name, value in values.items()}

    @property
    def checkpoints(self) -> Path:
        return self.home.resolve() / "checkpoints"

    @property
    def encoders(self) -> Path:
        return self.home.resolve() / "encoders"

    @property
    def experiments(self) -> Path:
        """Cells and studies."""
        return self.home.resolve() / "experiments"

    @property
    def corpora(self) -> Path:
        return self.home.resolve() / "corpora"

    @property
    def tagged(self) -> Path:
        """Entity-tagging corpora, each a folder."""
        return self.home.resolve() / "tagged"

    @property
    def outside_models(self) -> Path:
        """The file of outside models."""
        return self.outside or self.home.resolve() / "outside.toml"

    @property
    def sign_in_provider(self) -> Path:
        """The file of the sign-in provider."""
        return self.oidc or self.home.resolve() / "oidc.toml"

    @property
    def uploads(self) -> Path:
        """Files that wait for their import, a folder a job."""
        return self.home.resolve() / "uploads"

    @property
    def gazetteers(self) -> Path:
        return self.home.resolve() / "gazetteers"


def get_settings() -> Settings:
    """Read the settings afresh from the environment."""
    return Settings()


_SETTINGS_OF: dict[Store, Settings] = {}


@cache
def _store_for(url: str) -> Store:
    return Store(url)


def open_store(settings: Settings | None = None) -> Store:
    """Return the process's store for these settings, made once per URL; raise StorageError without a home folder."""
    chosen = settings or get_settings()
    try:
        chosen.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The folder {chosen.home} cannot be made: {error.strerror}. Set CROSSNER_HOME.") from error
    opened = _store_for(chosen.url)
    _SETTINGS_OF[opened] = chosen
    return opened


def settings_of(store: Store) -> Settings:
    """Return the settings a store was opened with, those of the environment for one opened otherwise."""
    return _SETTINGS_OF.get(store) or get_settings()
